// A client written with the TypeScript SDK of the first generation, `@modelcontextprotocol/sdk`.
//
//     node sdk1_client.js REVISION COMMAND...
//
// It always offers its newest revision: the server is started with the one to agree on.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, answers, play } from './scenario.js';

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
const transport = new StdioClientTransport({ command, args });
transport.setProtocolVersion = (revision) => {
  agreed = revision;
};
await play(client, transport, heard, () => agreed);
