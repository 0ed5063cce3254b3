// A server written with the TypeScript SDK of the first generation that runs tools as tasks.
//
//     node sdk1_task_server.js
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import * as z from 'zod';

const server = new McpServer(
  { name: 'interop', version: '1.2.3' },
  {
    capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
    taskStore: new InMemoryTaskStore(),
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  },
);
const text = (value, more = {}) => ({ content: [{ type: 'text', text: value }], ...more });

function taskTool(name, inputSchema, run) {
  const handler = {
    createTask: async (args, extra) => {
      const task = await extra.taskStore.createTask({ ttl: 60_000, pollInterval: 20 });
      run(args).then((result) => extra.taskStore.storeTaskResult(task.taskId, 'completed', result), () => {});
      return { task };
    },
    getTask: (_, extra) => extra.taskStore.getTask(extra.taskId),
    getTaskResult: (_, extra) => extra.taskStore.getTaskResult(extra.taskId),
  };
  const execution = { taskSupport: 'required' };
  server.experimental.tasks.registerToolTask(name, { description: name, inputSchema, execution }, handler);
}

const moment = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
taskTool('slow', { text: z.string() }, async ({ text: value }) => {
  await moment(50);
  return text(`slowly ${value}`);
});
taskTool('slow_fail', {}, async () => {
  await moment(50);
  return text('the task says no', { isError: true });
});
taskTool('slow_wait', {}, async () => {
  await moment(60_000);
  return text('waited');
});

await server.connect(new StdioServerTransport());
