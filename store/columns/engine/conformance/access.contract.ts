import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient, ClickHouseError, ClickHouseSettings, createClient } from '@clickhouse/client';
import type { Address } from '../engine-for-tests.ts';

/** A server to test; `residentBytes` tells the memory of its process where that can be seen. */
export type Target = Address & { close(): Promise<void>; residentBytes?(): number };

export type Access = {
  readonly client: () => ClickHouseClient;
  readonly connect: (options?: Parameters<typeof createClient>[0]) => ClickHouseClient;
  readonly target: () => Target;
};

type Row = Record<string, unknown>;

/** Rows of a query; 64-bit integers are text, whatever the server's default. */
export async function json<T = Row>(client: ClickHouseClient, query: string, options: object = {}): Promise<T[]> {
  const { clickhouse_settings, ...rest } = options as { clickhouse_settings?: ClickHouseSettings };
  const settings: ClickHouseSettings = { output_format_json_quote_64bit_integers: 1, ...clickhouse_settings };
  const result = await client.query({ query, format: 'JSONEachRow', ...rest, clickhouse_settings: settings });
  return (await result.json()) as T[];
}

/** A Native block of one UInt32 column `a`. */
export function nativeBlock(values: readonly number[]): Buffer {
  const head = Buffer.from([1, values.length]);
  assert.ok(values.length < 128, 'the length is one byte here');
  return Buffer.concat([head, Buffer.from('\x01a\x06UInt32', 'latin1'), Buffer.from(new Uint32Array(values).buffer)]);
}

export async function bytesOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part as Uint8Array));
  return Buffer.concat(parts);
}

export async function clickhouseError(work: Promise<unknown>): Promise<{ code: string; type: string | undefined; message: string }> {
  try {
    await work;
  } catch (error) {
    const { code, type, message } = error as ClickHouseError;
    return { code, type, message };
  }
  return assert.fail('no error');
}

/** A text that no other query holds. */
export function newMark(): string {
  return `mark${randomUUID().slice(0, 13)}`;
}

/** Queries that run now whose text holds `mark`. */
export async function runningQueries(client: ClickHouseClient, mark: string): Promise<number> {
  const rows = await json<{ n: string }>(
    client,
    `SELECT count() AS n FROM system.processes WHERE position(query, '${mark.slice(0, 6)}' || '${mark.slice(6)}') > 0`,
  );
  return Number(rows[0]?.n);
}

export async function until(what: string, check: () => Promise<boolean>, withinMs = 10_000): Promise<void> {
  for (const end = performance.now() + withinMs; performance.now() < end; await delay(50)) if (await check()) return;
  assert.fail(`${what} did not come true within ${withinMs} ms`);
}
