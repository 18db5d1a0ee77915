# SPDX-License-Identifier: Apache-2.0
"""When a fault begins, goes on, ends and comes back."""

from vla_edge_ros.monitor.fault_list import KEPT, SAME_WITHIN_S, FaultList
from vla_edge_ros.monitor.reading import ERROR, OK, WARN, Reading


def reading(level=WARN, message="no image for 1.2 s", name="/n: Camera"):
    return Reading(name, level, message, {})


def test_a_fault_lasts_until_the_status_is_ok():
    faults = FaultList()
    assert faults.see(reading(OK), 1.0) is None and faults.newest(9) == []
    begun = faults.see(reading(), 2.0)
    assert begun is not None and (begun.began_s, begun.ended_s) == (2.0, None)
    assert faults.see(reading(message="no image for 2.2 s"), 3.0) is None
    assert faults.see(reading(OK), 4.0) is None
    (fault,) = faults.newest(9)
    assert (fault.began_s, fault.last_s, fault.ended_s) == (2.0, 3.0, 4.0)
    assert fault.message == "no image for 2.2 s" and fault.subject == "Camera" and fault.times == 1


def test_another_level_or_another_text_is_another_fault():
    faults = FaultList()
    faults.see(reading(), 1.0)
    faults.see(reading(ERROR), 2.0)
    faults.see(reading(ERROR, "images refused (step 3): short rows"), 3.0)
    faults.see(reading(ERROR, "images refused (step 4): no rows"), 4.0)  # the details may change
    said = [(fault.level, fault.ended_s, fault.message) for fault in faults.newest(9)]
    assert said == [
        (ERROR, None, "images refused (step 4): no rows"),
        (ERROR, 3.0, "no image for 1.2 s"),
        (WARN, 2.0, "no image for 1.2 s"),
    ]


def test_statuses_of_one_subject_but_two_nodes_are_two_faults():
    faults = FaultList()
    faults.see(reading(name="/a: Camera"), 1.0)
    faults.see(reading(name="/b: Camera"), 2.0)
    faults.see(reading(OK, name="/a: Camera"), 3.0)
    assert [(fault.name, fault.ended_s) for fault in faults.newest(9)] == [
        ("/b: Camera", None),
        ("/a: Camera", 3.0),
    ]


def test_a_fault_that_flickers_is_one_and_pushes_no_other_out():
    faults = FaultList()
    faults.see(reading(ERROR, "engine error", "/n: GPU"), 0.0)
    for second in range(1, 1000):
        faults.see(reading(OK if second % 2 else WARN), float(second))
    assert {fault.name for fault in faults.newest(KEPT)} == {"/n: GPU", "/n: Camera"}
    (camera,) = (fault for fault in faults.newest(KEPT) if fault.name == "/n: Camera")
    assert camera.times == 499 and camera.ended_s == 999.0


def test_what_comes_back_much_later_is_a_new_one():
    faults = FaultList()
    for began_s in (0.0, SAME_WITHIN_S + 2.0):
        faults.see(reading(), began_s)
        faults.see(reading(OK), began_s + 1.0)
    assert [fault.began_s for fault in faults.newest(9)] == [SAME_WITHIN_S + 2.0, 0.0]


def test_only_the_last_ones_are_kept():
    faults = FaultList()
    for number in range(3 * KEPT):
        faults.see(reading(name=f"/n{number}: Camera"), float(number))
    kept = faults.newest(10 * KEPT)
    assert [fault.name for fault in kept] == [f"/n{n}: Camera" for n in reversed(range(2 * KEPT, 3 * KEPT))]
    assert faults.newest(2) == kept[:2]
