/**
 * Runs statements in the engine under users that a file defines, in a process of its own, since an engine reads its users once. Reads an order as JSON from standard input and
 * writes one answer per statement, a line each.
 */
import { text } from 'node:stream/consumers';
import { openSession } from '../engine/chdb.ts';
import type { Answer, Order } from './rights-for-tests.ts';

const { directory, config, database, statements } = JSON.parse(await text(process.stdin)) as Order;
// the first session opens the store; each statement has one of its own, as each request has
const first = openSession(directory, config);
for (const statement of statements) {
  const session = openSession(directory);
  let answer: Answer;
  try {
    if (database !== null) await session.run(`USE ${database}`);
    answer = { text: (await session.run(statement, 'JSONEachRow')).bytes.toString() };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    answer = { code: Number(/Code: (\d+)/.exec(message)?.[1] ?? 0), message };
  }
  session.close();
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
first.close();
process.exit(0);
