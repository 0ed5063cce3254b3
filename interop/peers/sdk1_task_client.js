// A client written with the TypeScript SDK of the first generation that runs tools as tasks.
//
//     node sdk1_task_client.js REVISION COMMAND... | URL
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, answers, transportTo } from './scenario.js';

const [, , revision, command, ...args] = process.argv;
const client = new Client({ name: 'sdk-1', version: '1' }, { capabilities: CAPABILITIES });
client.setRequestHandler(ElicitRequestSchema, answers().elicit);
const tasks = client.experimental.tasks;

async function result(name, args = {}) {
  const told = {};
  const stream = tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 60_000 } });
  for await (const message of stream) {
    if (message.type === 'taskCreated') {
      told.first = message.task.status;
      told.id = message.task.taskId;
    } else if (message.type === 'result') {
      told.error = message.result.isError ?? false;
      told.text = message.result.content.map((block) => block.text).join(' ');
    } else if (message.type === 'error') {
      throw message.error;
    }
  }
  const { id, ...rest } = told;
  return { ...rest, final: (await tasks.getTask(id)).status };
}

async function cancel(name) {
  const stream = tasks.callToolStream({ name, arguments: {} }, CallToolResultSchema, { task: { ttl: 60_000 } });
  const { value } = await stream.next();
  const { taskId } = value.task;
  await tasks.cancelTask(taskId);
  await stream.return();
  return (await tasks.getTask(taskId)).status;
}

async function call(name, args) {
  const answer = await client.callTool({ name, arguments: args });
  return { error: answer.isError ?? false, text: answer.content.map((block) => block.text).join(' ') };
}

const steps = {
  opened: () => ({ revision }),
  support: async () => (await client.listTools()).tools.map((tool) => [tool.name, tool.execution?.taskSupport ?? null]),
  result: () => result('slow', { text: 'on' }),
  failure: () => result('slow_fail'),
  question: () => result('slow_ask', { question: 'who?' }),
  cancel: () => cancel('slow_wait'),
  list: async () =>
    client.getServerCapabilities().tasks?.list
      ? (await tasks.listTasks()).tasks.map((task) => task.status).sort()
      : 'not declared',
  without: () => call('slow', { text: 'on' }),
};
const outcomes = {};
try {
  const transport = transportTo({ StdioClientTransport, StreamableHTTPClientTransport }, command, args);
  await client.connect(transport);
  for (const [name, step] of Object.entries(steps)) {
    try {
      outcomes[name] = await step();
    } catch (error) {
      outcomes[name] = { error: { type: error.name, code: error.code ?? null, text: error.message } };
    }
  }
  if (transport.sessionId !== undefined) await transport.terminateSession();
  await client.close();
  outcomes.closed = true;
} finally {
  process.stdout.write(JSON.stringify(outcomes) + '\n');
}
