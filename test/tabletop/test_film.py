# SPDX-License-Identifier: Apache-2.0
"""The film of a run: which pictures it takes, and the file."""

from PIL import Image

from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.film import CAPTION, CYCLES_A_PICTURE, END_MS, LONGEST, WIDTH, Film
from vla_edge_ros.tabletop.tasks import draw


def test_every_third_cycle_and_the_end_are_filmed_at_both_rates(tmp_path):
    for rate_hz in (30, 60):
        film, episode = Film(), Episode(draw("point", 1), physics=False, rate_hz=rate_hz)
        film.see(episode)
        while not episode.ended:
            episode.step(episode.expert())
            film.see(episode)
        film.see(episode, "touched the right one")
        assert len(film) == 2 + int(episode.cycle) // CYCLES_A_PICTURE
        path = tmp_path / f"{rate_hz}" / "film.gif"
        film.write(path)
        assert path.stat().st_size < 500_000
        with Image.open(path) as written:
            assert written.size == (WIDTH, WIDTH // 2 + CAPTION) and written.n_frames == len(film)
            written.seek(len(film) - 1)
            assert written.info["duration"] == END_MS


def test_a_film_has_an_end_and_an_empty_one_is_no_file(tmp_path):
    film, episode = Film(), Episode(draw("point", 1), physics=False)
    film.write(tmp_path / "none.gif")
    assert not (tmp_path / "none.gif").exists()
    for _ in range(LONGEST + 5):
        film.see(episode)
    assert len(film) == LONGEST
