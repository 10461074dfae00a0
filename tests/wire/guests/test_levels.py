"""What may stand below a host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.wire.guests.levels import Level, parse_levels


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("101", [Level("guest", "101")]),
        ("web1", [Level("guest", "web1")]),
        ("agent:web1", [Level("agent", "web1")]),
        ("agent:/run/qga.sock", [Level("agent", "/run/qga.sock")]),
        (
            "agent:/run/a/b.sock/docker:web",
            [Level("agent", "/run/a/b.sock"), Level("docker", "web")],
        ),
        ("vm1/docker:web", [Level("guest", "vm1"), Level("docker", "web")]),
        ("pod:shop/web-0", [Level("pod", "shop/web-0")]),
        ("pod:shop/web-0/app/netns:x", [Level("pod", "shop/web-0/app"), Level("netns", "x")]),
        ("netns:blue/netns:red", [Level("netns", "blue"), Level("netns", "red")]),
        ("ssh:root@10.0.0.5:22", [Level("ssh", "root@10.0.0.5:22")]),
        ("vsock:3", [Level("vsock", "3")]),
    ],
)
def test_levels(text: str, levels: list[Level]) -> None:
    assert list(parse_levels(text)) == levels
    assert "/".join(map(str, levels)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "name missing"),
        ("a//b", "name missing"),
        ("docker:", "name missing after 'docker:'"),
        ("jail:x", "'jail' is no way to a guest: agent, docker"),
        ("docker:-v", "begins with a dash"),
        ("netns:..", "not a valid name"),
        ("agent:/run/../etc/x", "not a valid name"),
        ("pod:web", "not a valid pod: NAMESPACE/NAME"),
        ("docker:a b", "not a valid name"),
        ("a/b/c/d/e", "more than 4 levels"),
        ("x" * 254, "more than 253 characters"),
    ],
)
def test_what_is_no_level_has_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_levels(text)


@pytest.mark.parametrize("character", "'`\"$\\;&<>|(){}*?[]!~#%= \n\t")
@pytest.mark.parametrize("kind", ["", "agent:", "agent:/", "docker:", "netns:", "pod:a/"])
def test_names_with_characters_of_a_shell_are_refused(kind: str, character: str) -> None:
    with pytest.raises(ValueError):
        parse_levels(f"{kind}vm{character}1")


@given(st.text(max_size=40))
def test_any_text_is_levels_or_a_sentence(text: str) -> None:
    try:
        levels = parse_levels(text)
    except ValueError as error:
        assert str(error).isprintable()
    else:
        assert "/".join(map(str, levels)) == text
