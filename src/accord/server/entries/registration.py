"""What authors register at a server: tools, resources, prompts, completions, middleware."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from accord.errors import RegistrationError
from accord.server.context import Context
from accord.server.entries.registry import Function, Registry, decorator
from accord.server.entries.resource_registry import Resources
from accord.server.entries.tools import ToolEntry, build_tool, is_described
from accord.server.middleware import Layers, Middleware
from accord.server.schema import signature
from accord.server.settings import ToolDetails, warn_about_tool

if TYPE_CHECKING:
    from accord.server.entries.completion import Completions, CompletionSource
    from accord.server.entries.files import DirectoryResource
    from accord.server.entries.prompts import PromptDetails, PromptEntry
    from accord.server.entries.resources import ResourceDetails, ResourceEntry, TemplateEntry

LayerFunction = TypeVar("LayerFunction", bound=Middleware)


class Registration:
    """The part of a `Server` by which authors register what it offers.

    Attributes:
        tool_entries: its tools.
        prompt_entries: its prompts.
        resource_entries: its resources and resource templates.
        completions: its completers.
        layers: its middleware.
        is_strict: whether tools refuse text for what is not text.
    """

    tool_entries: Registry[ToolEntry]
    prompt_entries: "Registry[PromptEntry]"
    resource_entries: Resources
    layers: Layers
    is_strict: bool

    @property
    def completions(self) -> "Completions":
        raise NotImplementedError

    @overload
    def tool(self, function: Function, /, **details: Unpack[ToolDetails]) -> Function: ...
    @overload
    def tool(
        self, function: None = None, /, **details: Unpack[ToolDetails]
    ) -> Callable[[Function], Function]: ...
    def tool(
        self, function: Function | None = None, /, **details: Unpack[ToolDetails]
    ) -> Function | Callable[[Function], Function]:
        """Offer a function as a tool: as a decorator, with or without details, or as a call."""
        register = decorator(self.add_tool, **details)
        return register if function is None else register(function)

    def add_tool(
        self, function: Callable[..., object], **details: Unpack[ToolDetails]
    ) -> ToolEntry:
        """Offer a function as a tool.

        Raises:
            RegistrationError: its parameters have no JSON form, or the name is taken.
        """
        if self.is_strict:
            details.setdefault("strict", True)
        entry = build_tool(function, **details)
        self.tool_entries.add(entry, replace=details.get("replace", False))
        warn_about_tool(entry.key, is_described=is_described(entry))
        return entry

    def resource(
        self, uri: str, **details: "Unpack[ResourceDetails]"
    ) -> Callable[[Function], Function]:
        """Offer the value of a function as a resource; a URI with `{variables}` is a template."""
        if callable(uri):
            raise RegistrationError("resource needs a URI: write @server.resource('note://today')")
        return decorator(self.add_resource, uri, **details)

    def add_resource(
        self, uri: str, function: Callable[..., object], **details: "Unpack[ResourceDetails]"
    ) -> "ResourceEntry | TemplateEntry":
        """Offer the value of a function as a resource.

        Raises:
            RegistrationError: the URI does not fit the function, or it is taken.
        """
        from accord.server.entries.resources import build_resource

        found = signature.inspect(function, context_type=Context)
        entry = build_resource(uri, function, signature=found, **details)
        self.resource_entries.add(entry, replace=details.get("replace", False))
        return entry

    @overload
    def prompt(self, function: Function, /, **details: "Unpack[PromptDetails]") -> Function: ...
    @overload
    def prompt(
        self, function: None = None, /, **details: "Unpack[PromptDetails]"
    ) -> Callable[[Function], Function]: ...
    def prompt(
        self, function: Function | None = None, /, **details: "Unpack[PromptDetails]"
    ) -> Function | Callable[[Function], Function]:
        """Offer a function as a prompt: as a decorator, with or without details, or as a call."""
        register = decorator(self.add_prompt, **details)
        return register if function is None else register(function)

    def add_prompt(
        self, function: Callable[..., object], **details: "Unpack[PromptDetails]"
    ) -> "PromptEntry":
        """Offer a function as a prompt.

        Raises:
            RegistrationError: its signature does not fit, or the name is taken.
        """
        from accord.server.entries.prompts import build_prompt

        found = signature.inspect(function, context_type=Context)
        entry = build_prompt(function, signature=found, **details)
        return self.prompt_entries.add(entry, replace=details.get("replace", False))

    def add_file(
        self,
        path: str | PathLike[str],
        uri: str | None = None,
        **details: "Unpack[ResourceDetails]",
    ) -> "ResourceEntry | TemplateEntry":
        """Offer a file as a resource."""
        from accord.server.entries.files import FileResource

        entry = FileResource(path, uri, **details).entry()
        self.resource_entries.add(entry, replace=details.get("replace", False))
        return entry

    def add_directory(
        self,
        root: str | PathLike[str],
        uri: str = "files://{+path}",
        *,
        pattern: str = "*",
        **details: "Unpack[ResourceDetails]",
    ) -> "DirectoryResource":
        """Offer the files below a directory; no path leads out of it."""
        from accord.server.entries.files import DirectoryResource

        directory = DirectoryResource(root, uri, pattern=pattern, **details)
        directory.publish(self.resource_entries)
        return directory

    def completion(self, of: str, argument: str) -> Callable[[Function], Function]:
        """Complete an argument of a prompt, or a variable of a resource template.

        The function gets the typed text and the arguments filled in so far.

        Args:
            of: the name of the prompt, or the template as it was registered.
            argument: the name of the argument or variable.
        """
        return decorator(self.add_completion, of, argument)

    def add_completion(self, of: str, argument: str, source: "CompletionSource") -> None:
        """Complete an argument by a function, or by values: texts, an Enum or a Literal."""
        self.completions.add(of, argument, source)

    # -- middleware

    @overload
    def middleware(self, function: LayerFunction, /) -> LayerFunction: ...
    @overload
    def middleware(self, *methods: str) -> Callable[[LayerFunction], LayerFunction]: ...
    def middleware(self, *given: Any) -> Any:
        """Call a function around every request, or around those of the methods that are named.

        As `@server.middleware` or `@server.middleware("tools/call")`. The first one that was added
        is the outermost.
        """
        if len(given) == 1 and callable(given[0]):
            self.add_middleware(given[0])
            return given[0]

        def register(function: LayerFunction) -> LayerFunction:
            self.add_middleware(function, *given)
            return function

        return register

    def add_middleware(self, function: Middleware, *methods: str) -> None:
        """Call a function around every request, or around those of the methods that are named.

        Raises:
            RegistrationError: it cannot be called with ctx and proceed, or a method is unknown.
        """
        self.layers.add(function, *methods)
