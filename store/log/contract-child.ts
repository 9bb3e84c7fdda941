/** The other process of the contract suite. `append`: adds records for ever and prints each that is acknowledged. `follow`: prints what it reads. */
import { systemClock } from '../../base/clock.ts';
import type { OpenLog } from './contract-support.ts';
import type { ChildOrder } from './contract-process.ts';

const order = JSON.parse(process.argv[2] as string) as ChildOrder;
const { openLog } = (await import(order.fixture)) as { openLog: OpenLog<unknown> };
const log = await openLog(order.target, { ...order, mode: order.action === 'append' ? 'write' : 'read', clock: systemClock });

if (order.action === 'append') {
  const start = (await log.positions())[0]?.end ?? 0;
  for (let i = start; ; i += 2) {
    const values = [`value-${i}`, `value-${i + 1}`];
    const { first } = await log.append(
      0,
      values.map((value) => ({ key: Buffer.from('k'), value: Buffer.from(value) })),
    );
    process.stdout.write(values.map((value, j) => `${first + j} ${value}\n`).join(''));
  }
}

for (let at = 0; ;) {
  const chunk = await log.read(0, at, { maxBytes: 1 << 20, waitMs: 60_000 });
  for (const { offset, value } of chunk.records) process.stdout.write(`${offset} ${Buffer.from(value).toString()}\n`);
  at = chunk.next;
}
