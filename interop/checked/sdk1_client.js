// A plain program with the TypeScript SDK, as its users write it: node sdk1_client.js URL
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [, , command, ...args] = process.argv;
const capabilities = { sampling: {}, roots: { listChanged: true }, elicitation: {} };
const client = new Client({ name: 'plain', version: '1' }, { capabilities });
client.setRequestHandler(CreateMessageRequestSchema, () => ({
  role: 'assistant',
  content: { type: 'text', text: 'hello' },
  model: 'parrot',
  stopReason: 'endTurn',
}));
client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));

function transport() {
  if (command.endsWith('/sse')) return new SSEClientTransport(new URL(command));
  if (command.startsWith('http://')) return new StreamableHTTPClientTransport(new URL(command));
  return new StdioClientTransport({ command, args });
}

const chosen = transport();
await client.connect(chosen);
let page = await client.listTools();
while (page.nextCursor !== undefined) page = await client.listTools({ cursor: page.nextCursor });
await client.listResources();
await client.listPrompts();
await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
await client.readResource({ uri: 'play://note' });
await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
await client.ping();
if (chosen.terminateSession) await chosen.terminateSession();
await client.close();
