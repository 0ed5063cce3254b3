// A plain program with the second TypeScript SDK, as its users write it: node sdk2_client.js URL
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [, , command, ...args] = process.argv;
const capabilities = { sampling: {}, roots: { listChanged: true }, elicitation: {} };
const versionNegotiation = { mode: 'auto' };
const client = new Client({ name: 'plain', version: '2' }, { capabilities, versionNegotiation });
client.setRequestHandler('sampling/createMessage', () => ({
  role: 'assistant',
  content: { type: 'text', text: 'hello' },
  model: 'parrot',
  stopReason: 'endTurn',
}));
client.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));

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
// The newest revision has no ping.
if (client.getNegotiatedProtocolVersion() !== '2026-07-28') await client.ping();
if (chosen.terminateSession) await chosen.terminateSession();
await client.close();
