"""Operations of clients on changes that servers report."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from accord.client.link import Link
from accord.client.options import CallOptions

if TYPE_CHECKING:
    from accord.client.listening import Listening


class ChangeCalls:
    """The part of the client that subscribes and listens."""

    _link: Link

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
    ) -> "Listening":
        """Iterate over the changes that the server reports; without arguments, of all its lists.

        Equal changes that wait to be read are one, so a slow reader delays nothing. When the stream
        breaks it is opened again; what happened in between is lost, which `NoticesLost` says. The
        iteration ends when the server ends the stream. Errors are raised as by other operations.

        Args:
            tools: whether to hear of changes of the list of tools, as `ToolsChanged`.
            prompts: of the list of prompts, as `PromptsChanged`.
            resources: of the list of resources, as `ResourcesChanged`.
            uris: the resources to hear of, as `ResourceUpdated`.
        """
        from accord.client.listening import Listening, make_filter

        wanted = make_filter(uris, tools=tools, prompts=prompts, resources=resources)
        return Listening(self._link, wanted, self)

    async def subscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear of changes of a resource; they reach `on_resource_updated`."""
        from accord.client.subscribing import subscribe

        await subscribe(self._link, uri, how)

    async def unsubscribe(self, uri: str, **how: Unpack[CallOptions]) -> None:
        """Ask to hear no more of a resource."""
        from accord.client.subscribing import unsubscribe

        await unsubscribe(self._link, uri, how)
