// SPDX-License-Identifier: Apache-2.0
// Python faces of the native core. No logic: arguments are checked, the GIL is released around what waits or
// copies, and a lease becomes the base of the array that shows it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cycle_clock.hpp"
#include "deadline_watchdog.hpp"
#include "frame_slot.hpp"

namespace py = pybind11;
using namespace vla_edge;

namespace {

using Pixels = py::array_t<std::uint8_t, py::array::c_style>;

const std::uint8_t* checked_pixels(const FrameShape& shape, const py::object& pixels) {
  const auto expected = py::make_tuple(shape.height, shape.width, shape.channels);
  if (!py::isinstance<py::array>(pixels)) {
    throw py::value_error(py::str("expected pixels uint8 {} C-contiguous, got a {}")
                              .format(expected, py::type::of(pixels).attr("__name__")));
  }
  const auto array = py::reinterpret_borrow<py::array>(pixels);
  if (!py::isinstance<Pixels>(array) || !expected.equal(array.attr("shape"))) {
    const char* layout = array.flags() & py::array::c_style ? "C-contiguous" : "not C-contiguous";
    throw py::value_error(py::str("expected pixels uint8 {} C-contiguous, got {} {} {}")
                              .format(expected, array.dtype(), array.attr("shape"), layout));
  }
  return static_cast<const std::uint8_t*>(array.data());
}

py::object lend(FrameSlot& slot) {
  std::optional<FrameLease> latest = slot.latest();
  if (!latest) return py::none();
  auto lease = std::make_unique<FrameLease>(std::move(*latest));
  const FrameLease& frame = *lease;
  const FrameShape& shape = frame.shape();
  py::capsule owner(lease.get(), [](void* held) { delete static_cast<FrameLease*>(held); });
  lease.release();
  Pixels view({shape.height, shape.width, shape.channels}, frame.pixels(), owner);
  // pybind11 has no public way to this; setflags() from Python costs more than all the rest.
  py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return py::make_tuple(std::move(view), frame.sequence(), frame.stamp_ns(), frame.is_new());
}

py::object wait_next(CycleClock& clock) {
  std::optional<Tick> tick;
  {
    py::gil_scoped_release release;
    tick = clock.wait_next();
  }
  if (!tick) return py::none();
  return py::make_tuple(tick->cycle, tick->scheduled_ns, tick->woke_ns, tick->skipped);
}

}  // namespace

PYBIND11_MODULE(_vla_edge_native, module) {
  module.doc() = "Native core of vla_edge_ros; use it through vla_edge_ros.runtime.";

  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const LeasesExhausted& error) {
      PyErr_SetString(PyExc_BufferError, error.what());
    } catch (const OverlappingWrite& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  });

  py::class_<FrameSlot, std::shared_ptr<FrameSlot>>(module, "FrameSlot")
      .def(py::init([](std::size_t height, std::size_t width, std::size_t channels, std::size_t leases) {
             return std::make_shared<FrameSlot>(FrameShape{height, width, channels}, leases);
           }),
           py::arg("height"), py::arg("width"), py::arg("channels") = 3, py::arg("leases") = 4)
      .def(
          "write",
          [](FrameSlot& slot, const py::object& pixels, std::int64_t stamp_ns) {
            const std::uint8_t* data = checked_pixels(slot.shape(), pixels);
            py::gil_scoped_release release;
            return slot.write(data, stamp_ns);
          },
          py::arg("pixels"), py::arg("stamp_ns"))
      .def("latest", &lend)
      .def_property_readonly("leases", &FrameSlot::leases)
      .def_property_readonly("written", &FrameSlot::written)
      .def_property_readonly("overwritten", &FrameSlot::overwritten)
      .def_property_readonly("taken", &FrameSlot::taken)
      .def_property_readonly("refused_writes", &FrameSlot::refused_writes)
      .def_property_readonly("memory_address",
                             [](const FrameSlot& slot) { return reinterpret_cast<std::uintptr_t>(slot.memory()); })
      .def_property_readonly("memory_bytes", &FrameSlot::memory_bytes);

  py::class_<CycleClock>(module, "CycleClock")
      .def(py::init<std::int64_t, std::int64_t>(), py::arg("period_ns"), py::arg("spin_ns"))
      .def(
          "start",
          [](CycleClock& clock, std::optional<std::int64_t> epoch_ns) {
            const std::int64_t epoch = epoch_ns.value_or(steady_ns());
            clock.start(epoch);
            return epoch;
          },
          py::arg("epoch_ns") = py::none())
      .def("wait_next", &wait_next)
      .def("stop", &CycleClock::stop)
      .def_property_readonly("total_skipped", &CycleClock::total_skipped);

  py::class_<DeadlineWatchdog>(module, "DeadlineWatchdog")
      .def(py::init<std::int64_t>(), py::arg("period_ns"))
      .def("arm", &DeadlineWatchdog::arm, py::arg("cycle"), py::arg("deadline_ns"))
      .def("disarm", &DeadlineWatchdog::disarm)
      .def("stop", &DeadlineWatchdog::stop)
      .def("claim", &DeadlineWatchdog::claim, py::arg("cycle"))
      .def("wait", &DeadlineWatchdog::wait, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("claimed_by_owner", &DeadlineWatchdog::claimed_by_owner)
      .def_property_readonly("claimed_by_watchdog", &DeadlineWatchdog::claimed_by_watchdog)
      .def_property_readonly("never_claimed", &DeadlineWatchdog::never_claimed);
}
