/**
 * The first question of clickhouse-go, which Grafana's data source is made of. It reads the answer in the Native form of the protocol revision it named, which the HTTP
 * interface of the embedded engine does not write; told a revision of 0 it reads plain Native from then on. So this one answer is made by hand.
 */
import { ByteWriter } from '../../base/byte-writer.ts';
import type { EngineFacts } from '../../store/columns/engine/reply.ts';

const QUESTION = /^\s*SELECT\s+displayName\(\),\s*version\(\),\s*revision\(\),\s*timezone\(\)\s*;?\s*$/i;
/** From here on each column says whether its serialisation is special. */
const CUSTOM_SERIALIZATION = 54_454;
const BLOCK_INFO = 51_903;

/** Null: another question, or a client that reads plain Native. */
export function helloAnswer(text: string, url: URLSearchParams, facts: EngineFacts): Buffer | null {
  const revision = Number(url.get('client_protocol_version') ?? 0);
  if (!QUESTION.test(text) || !(revision >= BLOCK_INFO)) return null;
  const out = new ByteWriter(256);
  // block info: field 1 (is_overflows) 0, field 2 (bucket_num) -1, end
  for (const byte of [1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0]) out.byte(byte);
  const columns: readonly (readonly [string, string, () => void])[] = [
    ['displayName()', 'String', () => string(out, 'tapedeck')],
    ['version()', 'String', () => string(out, facts.version)],
    ['revision()', 'UInt32', () => [0, 0, 0, 0].forEach((byte) => out.byte(byte))],
    ['timezone()', 'String', () => string(out, facts.timezone)],
  ];
  out.byte(columns.length);
  out.byte(1);
  for (const [name, type, value] of columns) {
    string(out, name);
    string(out, type);
    if (revision >= CUSTOM_SERIALIZATION) out.byte(0);
    value();
  }
  return Buffer.from(out.take());
}

/** Shorter than 128 bytes: the length is one byte. */
function string(out: ByteWriter, text: string): void {
  const bytes = Buffer.from(text);
  out.byte(bytes.length);
  out.bytes(bytes);
}
