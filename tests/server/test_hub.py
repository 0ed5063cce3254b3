import gc
from typing import Any

import pytest

from accord import Server
from accord.protocol.revisions import Phase
from accord.server import hub as hubs
from accord.server.hub import Hub, ServerChange, list_change, list_topic, resource_change
from support.waiting import run


class Ear:
    def __init__(self) -> None:
        self.heard: list[ServerChange] = []

    def hear(self, change: ServerChange) -> None:
        self.heard.append(change)


class CountedBus:
    """A bus that two hubs share, as two processes would."""

    def __init__(self) -> None:
        self.carried: list[ServerChange] = []
        self.subscribers: list[Any] = []

    def publish(self, change: ServerChange) -> None:
        self.carried.append(change)
        for deliver in self.subscribers:
            deliver(change)

    def subscribe(self, deliver: Any) -> None:
        self.subscribers.append(deliver)


def test_a_change_reaches_the_listeners_of_its_topic_alone() -> None:
    hub, of_a, of_tools = Hub(), Ear(), Ear()
    hub.listen(of_a, [resource_change("note://a").topic])
    hub.listen(of_tools, [list_topic("tools")])
    hub.publish(resource_change("note://a"))
    hub.publish(resource_change("note://b"))
    hub.publish(list_change("tools"))
    hub.publish(list_change("prompts"))
    assert of_a.heard == [resource_change("note://a")]
    assert of_tools.heard == [list_change("tools")]


def test_a_listener_of_every_resource_hears_of_each() -> None:
    hub, ear = Hub(), Ear()
    hub.listen(ear, [(hubs.UPDATED, None)])
    changes = [resource_change("note://a"), resource_change("note://b")]
    for change in (*changes, list_change("resources")):
        hub.publish(change)
    assert ear.heard == changes


def test_an_update_does_not_touch_the_listeners_of_other_resources() -> None:
    hub = Hub()
    others = [Ear() for _ in range(10_000)]
    for number, each in enumerate(others):
        hub.listen(each, [resource_change(f"note://{number}").topic])
    found: list[Any] = []
    hub._topics = CountedTopics(hub._topics, found)
    hub.publish(resource_change("note://9"))
    assert found == [resource_change("note://9").topic, (hubs.UPDATED, None)]
    assert [each for each in others if each.heard] == [others[9]]


class CountedTopics(dict[Any, Any]):
    """Notes which topics are looked up; nothing may go through all of them."""

    def __init__(self, topics: Any, found: list[Any]) -> None:
        super().__init__(topics)
        self._found = found

    def get(self, key: Any, default: Any = None) -> Any:
        self._found.append(key)
        return super().get(key, default)

    def __iter__(self) -> Any:
        raise AssertionError("all topics are searched")

    items = values = keys = __iter__


def test_a_listener_that_ignores_a_topic_hears_no_more_of_it() -> None:
    hub, ear = Hub(), Ear()
    topics = [list_topic("tools"), list_topic("prompts")]
    hub.listen(ear, topics)
    hub.listen(ear, topics)  # again: once is enough
    assert len(hub) == 2
    hub.ignore(ear, topics[:1])
    hub.ignore(ear, topics[:1])
    hub.publish(list_change("tools"))
    hub.publish(list_change("prompts"))
    assert ear.heard == [list_change("prompts")]
    hub.ignore(ear, topics)
    assert len(hub) == 0


def test_listeners_that_are_dropped_are_forgotten() -> None:
    hub, kept = Hub(), Ear()
    hub.listen(kept, [list_topic("tools")])
    for number in range(5 * hubs._SWEEP):
        hub.listen(Ear(), [resource_change(f"note://{number}").topic, list_topic("tools")])
    gc.collect()
    assert len(hub) <= 2 * hubs._SWEEP
    hub.publish(list_change("tools"))
    assert kept.heard == [list_change("tools")]


def test_a_listener_that_fails_does_not_keep_a_change_from_others(caplog: Any) -> None:
    class Broken:
        def hear(self, change: ServerChange) -> None:
            raise RuntimeError("broken")

    hub, broken, ears = Hub(), Broken(), [Ear(), Ear()]
    for each in (ears[0], broken, ears[1]):
        hub.listen(each, [list_topic("tools")])
    hub.publish(list_change("tools"))
    assert [len(ear.heard) for ear in ears] == [1, 1]
    assert "a listener could not be notified of notifications/tools/list_changed" in caplog.text


def test_a_change_after_the_end_of_the_loop_has_no_effect(caplog: Any) -> None:
    server = Server("desk")
    kept: list[Any] = []

    async def main() -> None:
        kept.append(server._core.session(lambda data, exchange: None))
        kept[0].endpoint.conversation.phase = Phase.READY

    run(main())
    server.add_tool(len, name="late", description="Late.")
    assert caplog.text == ""


def test_a_bus_carries_changes_from_one_hub_to_another() -> None:
    bus, ear = CountedBus(), Ear()
    here, there = Hub(bus), Hub(bus)
    there.listen(ear, [list_topic("tools")])
    here.publish(list_change("tools"))
    assert ear.heard == bus.carried == [list_change("tools")]


def test_a_list_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no list 'tool'; expected one of tools, prompts"):
        Server("desk").list_changed("tool")  # type: ignore[arg-type]
