"""Which of our types stands for which official definition, in which revisions."""

from typing import Any

import msgspec

from accord import types as t
from accord.types._base import ALWAYS, since, until
from schema.official import TOLERATED


class Row(msgspec.Struct, frozen=True):
    """One definition: `form` says how an instance of it is put together from our type."""

    definition: str
    type: Any
    form: str = "object"
    method: str = ""
    code: int = 0
    lifetime: t.Lifetime = ALWAYS
    # A definition that others extend names only some members of our type.
    strict: bool = True
    given: dict[str, Any] = {}


OLD = until("2025-11-25")
MIDDLE = since("2025-11-25") & OLD
NEW = since("2026-07-28")
SINCE_06 = since("2025-06-18")
SINCE_11 = since("2025-11-25")


def same(*types: Any, lifetime: t.Lifetime = ALWAYS) -> list[Row]:
    """Definitions that are called as our types are."""
    return [Row(type_.__name__, type_, lifetime=lifetime) for type_ in types]


def request(
    definition: str, method: str, params: Any, *, lifetime: t.Lifetime = ALWAYS, strict: bool = True
) -> Row:
    return Row(definition, params, "request", method, lifetime=lifetime, strict=strict)


def notification(
    definition: str, method: str, params: Any = t.EmptyParams, *, lifetime: t.Lifetime = ALWAYS
) -> Row:
    return Row(definition, params, "notification", f"notifications/{method}", lifetime=lifetime)


REQUESTS = [
    request("InitializeRequest", "initialize", t.InitializeParams, lifetime=OLD),
    request("PingRequest", "ping", t.EmptyParams, lifetime=OLD),
    request("DiscoverRequest", "server/discover", t.DiscoverParams, lifetime=NEW),
    request("ListToolsRequest", "tools/list", t.PageParams),
    request("CallToolRequest", "tools/call", t.CallToolParams),
    request("ListResourcesRequest", "resources/list", t.PageParams),
    request("ListResourceTemplatesRequest", "resources/templates/list", t.PageParams),
    request("ReadResourceRequest", "resources/read", t.ReadResourceParams),
    request("SubscribeRequest", "resources/subscribe", t.SubscribeParams, lifetime=OLD),
    request("UnsubscribeRequest", "resources/unsubscribe", t.UnsubscribeParams, lifetime=OLD),
    request("ListPromptsRequest", "prompts/list", t.PageParams),
    request("GetPromptRequest", "prompts/get", t.GetPromptParams),
    request("CompleteRequest", "completion/complete", t.CompleteParams),
    request("SetLevelRequest", "logging/setLevel", t.SetLevelParams, lifetime=OLD),
    request("CreateMessageRequest", "sampling/createMessage", t.CreateMessageParams, lifetime=OLD),
    request("ElicitRequest", "elicitation/create", t.ElicitParams, lifetime=SINCE_06 & OLD),
    request("ListRootsRequest", "roots/list", t.EmptyParams, lifetime=OLD),
    request("GetTaskRequest", "tasks/get", t.GetTaskParams, lifetime=MIDDLE),
    request("GetTaskPayloadRequest", "tasks/result", t.TaskResultParams, lifetime=MIDDLE),
    request("CancelTaskRequest", "tasks/cancel", t.CancelTaskParams, lifetime=MIDDLE),
    request("ListTasksRequest", "tasks/list", t.PageParams, lifetime=MIDDLE),
    request("SubscriptionsListenRequest", "subscriptions/listen", t.ListenParams, lifetime=NEW),
    request("PaginatedRequest", "any/list", t.PageParams, strict=False),
    request("Request", "any", t.EmptyParams, strict=False),
    *same(t.CreateMessageRequest, t.ElicitRequest, t.ListRootsRequest, lifetime=NEW),
]

NOTIFICATIONS = [
    notification("InitializedNotification", "initialized", lifetime=OLD),
    notification("CancelledNotification", "cancelled", t.CancelledParams),
    notification("ProgressNotification", "progress", t.ProgressParams),
    notification("LoggingMessageNotification", "message", t.LogMessageParams),
    notification("ToolListChangedNotification", "tools/list_changed"),
    notification("PromptListChangedNotification", "prompts/list_changed"),
    notification("ResourceListChangedNotification", "resources/list_changed"),
    notification("ResourceUpdatedNotification", "resources/updated", t.ResourceUpdatedParams),
    notification("RootsListChangedNotification", "roots/list_changed", lifetime=OLD),
    notification(
        "ElicitationCompleteNotification",
        "elicitation/complete",
        t.ElicitationCompleteParams,
        lifetime=MIDDLE,
    ),
    notification("TaskStatusNotification", "tasks/status", t.TaskStatusParams, lifetime=MIDDLE),
    notification(
        "SubscriptionsAcknowledgedNotification",
        "subscriptions/acknowledged",
        t.SubscriptionsAcknowledgedParams,
        lifetime=NEW,
    ),
    Row("Notification", t.EmptyParams, "notification", "any", strict=False),
]

PARAMS = [
    Row("CallToolRequestParams", t.CallToolParams, lifetime=SINCE_11),
    Row("CancelledNotificationParams", t.CancelledParams, lifetime=SINCE_11),
    Row("CompleteRequestParams", t.CompleteParams, lifetime=SINCE_11),
    Row("CreateMessageRequestParams", t.CreateMessageParams, lifetime=SINCE_11),
    Row("ElicitRequestParams", t.ElicitParams, lifetime=SINCE_11),
    Row("ElicitRequestFormParams", t.ElicitParams, lifetime=SINCE_11, given={"mode": "form"}),
    Row("ElicitRequestURLParams", t.ElicitParams, lifetime=SINCE_11, given={"mode": "url"}),
    Row("GetPromptRequestParams", t.GetPromptParams, lifetime=SINCE_11),
    Row("InitializeRequestParams", t.InitializeParams, lifetime=MIDDLE),
    Row("LoggingMessageNotificationParams", t.LogMessageParams, lifetime=SINCE_11),
    Row("NotificationParams", t.EmptyParams, lifetime=SINCE_11),
    Row("PaginatedRequestParams", t.PageParams, lifetime=SINCE_11),
    Row("ProgressNotificationParams", t.ProgressParams, lifetime=SINCE_11),
    Row("ReadResourceRequestParams", t.ReadResourceParams, lifetime=SINCE_11),
    Row("RequestParams", t.EmptyParams, lifetime=SINCE_11),
    Row("ResourceRequestParams", t.ReadResourceParams, lifetime=SINCE_11, strict=False),
    Row("ResourceUpdatedNotificationParams", t.ResourceUpdatedParams, lifetime=SINCE_11),
    Row("SetLevelRequestParams", t.SetLevelParams, lifetime=MIDDLE),
    Row("SubscribeRequestParams", t.SubscribeParams, lifetime=MIDDLE),
    Row("TaskStatusNotificationParams", t.TaskStatusParams, lifetime=MIDDLE),
    Row("UnsubscribeRequestParams", t.UnsubscribeParams, lifetime=MIDDLE),
    Row("InputResponseRequestParams", t.RetryParams, lifetime=NEW),
    Row("SubscriptionsListenRequestParams", t.ListenParams, lifetime=NEW),
    Row(
        "SubscriptionsAcknowledgedNotificationParams",
        t.SubscriptionsAcknowledgedParams,
        lifetime=NEW,
    ),
]

RESULTS = [
    *same(t.InitializeResult, lifetime=OLD),
    *same(t.DiscoverResult, t.InputRequiredResult, t.CacheableResult, lifetime=NEW),
    *same(t.ListToolsResult, t.CallToolResult, t.ListPromptsResult, t.GetPromptResult),
    *same(t.ListResourcesResult, t.ListResourceTemplatesResult, t.ReadResourceResult),
    *same(t.CompleteResult, t.CreateMessageResult, t.ListRootsResult, t.EmptyResult),
    *same(t.ElicitResult, lifetime=SINCE_06),
    *same(t.CreateTaskResult, t.GetTaskResult, t.CancelTaskResult, lifetime=MIDDLE),
    *same(t.ListTasksResult, lifetime=MIDDLE),
    Row("GetTaskPayloadResult", t.EmptyResult, lifetime=MIDDLE),
    Row("SubscriptionsListenResult", t.ListenResult, lifetime=NEW),
    Row("Result", t.EmptyResult),
    Row("PaginatedResult", t.PageResult, strict=False),
]

RESPONSES = [
    Row(f"{definition}Response", type_, "response", lifetime=NEW)
    for definition, type_ in {
        "CallToolResult": t.CallToolResult,
        "CompleteResult": t.CompleteResult,
        "DiscoverResult": t.DiscoverResult,
        "GetPromptResult": t.GetPromptResult,
        "ListPromptsResult": t.ListPromptsResult,
        "ListResourceTemplatesResult": t.ListResourceTemplatesResult,
        "ListResourcesResult": t.ListResourcesResult,
        "ListToolsResult": t.ListToolsResult,
        "ReadResourceResult": t.ReadResourceResult,
        "SubscriptionsListenResult": t.ListenResult,
    }.items()
]

ERRORS = [
    Row("URLElicitationRequiredError", t.UrlElicitationData, "error", "", -32042, MIDDLE),
    Row("UnsupportedProtocolVersionError", t.UnsupportedVersionData, "error", "", -32022, NEW),
    Row("MissingRequiredClientCapabilityError", t.MissingCapabilityData, "error", "", -32021, NEW),
]

PARTS = [
    *same(t.TextContent, t.ImageContent, t.EmbeddedResource),
    *same(t.AudioContent, t.ToolAnnotations, t.Annotations, lifetime=since("2025-03-26")),
    *same(t.ResourceLink, lifetime=SINCE_06),
    *same(t.ToolUseContent, t.ToolResultContent, t.Icon, t.ToolChoice, lifetime=SINCE_11),
    *same(t.Tool, t.Prompt, t.PromptArgument, t.PromptMessage, t.PromptReference),
    *same(t.Resource, t.ResourceTemplate, t.Root, t.Implementation),
    *same(t.ClientCapabilities, t.ServerCapabilities),
    *same(t.ModelHint, t.ModelPreferences, t.SamplingMessage),
    *same(t.ResourceTemplateReference, lifetime=SINCE_06),
    *same(t.Task, t.TaskMetadata, t.ToolExecution, lifetime=MIDDLE),
    *same(t.SubscriptionFilter, lifetime=NEW),
    Row("ResourceReference", t.ResourceTemplateReference, lifetime=until("2025-03-26")),
    Row("ResourceContents", t.ResourceContents, strict=False),
    Row("TextResourceContents", t.ResourceContents, given={"text": "t"}),
    Row("BlobResourceContents", t.ResourceContents, given={"blob": "AAAA", "text": None}),
    Row("ContentBlock", t.ContentBlock, lifetime=SINCE_06),
    Row("SamplingMessageContentBlock", t.SamplingContentBlock, lifetime=SINCE_11),
    Row("BaseMetadata", t.Prompt, lifetime=SINCE_06, strict=False),
    Row("RelatedTaskMetadata", t.RelatedTask, lifetime=MIDDLE),
    Row("InputRequest", t.InputRequest, lifetime=NEW),
    Row("InputRequests", t.InputRequests, lifetime=NEW),
    Row("ResultMetaObject", t.ResultMeta, lifetime=NEW),
    Row("NotificationMetaObject", t.NotificationMeta, lifetime=NEW),
    Row("RequestMetaObject", t.RequestMeta, lifetime=NEW),
    Row(
        "SubscriptionsListenResultMetaObject",
        t.ResultMeta,
        lifetime=NEW,
        given={"subscription_id": 7},
    ),
]

SCALARS = [
    Row("Cursor", t.Cursor),
    Row("ProgressToken", t.ProgressToken),
    Row("RequestId", t.RequestId),
    Row("Role", t.Role),
    Row("LoggingLevel", t.LoggingLevel),
    Row("TaskStatus", t.TaskStatus, lifetime=MIDDLE),
    Row("ResultType", str, lifetime=NEW),
]

# Free JSON for us: read as it is, judged by the schema library where it matters.
FREE = [
    *(
        Row(name, t.JsonObject, "free", lifetime=SINCE_06)
        for name in (
            "StringSchema",
            "NumberSchema",
            "BooleanSchema",
            "EnumSchema",
            "PrimitiveSchemaDefinition",
        )
    ),
    *(
        Row(f"{name}EnumSchema", t.JsonObject, "free", lifetime=SINCE_11)
        for name in (
            "LegacyTitled",
            "MultiSelect",
            "SingleSelect",
            "TitledMultiSelect",
            "TitledSingleSelect",
            "UntitledMultiSelect",
            "UntitledSingleSelect",
        )
    ),
    Row("MetaObject", t.JsonObject, "free", lifetime=NEW),
    Row("JSONObject", t.JsonObject, "free", lifetime=NEW),
    Row("JSONArray", list[Any], "free", lifetime=NEW),
    Row("JSONValue", Any, "free", lifetime=NEW),
    Row("InputResponses", t.InputResponses, "free", lifetime=NEW),
    Row("InputResponse", t.JsonObject, "free", lifetime=NEW),
]

ROWS = [
    *REQUESTS,
    *NOTIFICATIONS,
    *PARAMS,
    *RESULTS,
    *RESPONSES,
    *ERRORS,
    *PARTS,
    *SCALARS,
    *FREE,
]

ENVELOPE = "the JSON-RPC envelope is read by the codec, not by the types"
UNION = "a union of messages, each of which has a row"
ABSTRACT = "members that other definitions share, each of which has a row"

EXCLUDED = {
    "JSONRPCBatchRequest": ENVELOPE,
    "JSONRPCBatchResponse": ENVELOPE,
    "JSONRPCError": ENVELOPE,
    "JSONRPCErrorResponse": ENVELOPE,
    "JSONRPCMessage": ENVELOPE,
    "JSONRPCNotification": ENVELOPE,
    "JSONRPCRequest": ENVELOPE,
    "JSONRPCResponse": ENVELOPE,
    "JSONRPCResultResponse": ENVELOPE,
    "Error": ENVELOPE,
    "HeaderMismatchError": ENVELOPE,
    "InternalError": ENVELOPE,
    "InvalidParamsError": ENVELOPE,
    "InvalidRequestError": ENVELOPE,
    "MethodNotFoundError": ENVELOPE,
    "ParseError": ENVELOPE,
    "ClientNotification": UNION,
    "ClientRequest": UNION,
    "ClientResult": UNION,
    "ServerNotification": UNION,
    "ServerRequest": UNION,
    "ServerResult": UNION,
    "Annotated": ABSTRACT,
    "Icons": ABSTRACT,
    "TaskAugmentedRequestParams": ABSTRACT,
}

# Members that our type has although the definition does not name them.
EXTRA: dict[str, set[str]] = {
    **{definition: set(members) for definition, members in TOLERATED.items()},
    "TextResourceContents": {"blob"},
    "BlobResourceContents": {"text"},
    "ElicitRequestFormParams": {"url", "elicitationId"},
    "ElicitRequestURLParams": {"requestedSchema"},
    "ResultMetaObject": {"io.modelcontextprotocol/subscriptionId"},
}

# Members whose absence a type does not forbid: because it stands for two definitions, because
# the endpoint fills them in, or because they are always sent.
LOOSE: dict[str, set[str]] = {
    "ResourceContents": {"text", "blob"},
    "ElicitParams": {"requestedSchema", "url", "mode", "elicitationId"},
    "ListenResult": {"_meta"},
    "InputRequiredResult": {"resultType"},
    "ResultMeta": {"io.modelcontextprotocol/subscriptionId"},
}
