// A client written with the TypeScript SDK of the first generation, `@modelcontextprotocol/sdk`.
//
//     node sdk1_client.js REVISION COMMAND... | URL
//
// It always offers its newest revision: the server is started with the one to agree on.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, answers, play, transportTo } from './scenario.js';

const [, , , command, ...args] = process.argv;
const heard = { logs: [], changes: [], updates: [], options: (options) => [CallToolResultSchema, options] };
const client = new Client({ name: 'sdk-1', version: '1' }, { capabilities: CAPABILITIES });
const { sample, elicit, roots } = answers();

client.setRequestHandler(CreateMessageRequestSchema, sample);
client.setRequestHandler(ElicitRequestSchema, elicit);
client.setRequestHandler(ListRootsRequestSchema, roots);
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
  heard.logs.push([params.level, params.data, params.logger]);
});
client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
  heard.changes.push('tools');
});
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
  heard.updates.push(params.uri);
});

// What was agreed on is told to transports only.
let agreed;
const transport = transportTo({ StdioClientTransport, SSEClientTransport, StreamableHTTPClientTransport }, command, args);
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (revision) => {
  agreed = revision;
  tell?.(revision);
};
await play(client, transport, heard, () => agreed);
