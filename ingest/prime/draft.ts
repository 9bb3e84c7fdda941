/**
 * All or nothing: the events of one request are collected and checked here, and nothing is appended before all of them passed. What is kept is their CBOR, counted
 * in the claim of the request. A crash between two appends leaves a part behind; the same request sent again completes it, since event ids derive from content.
 */
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { writeHead } from '../../events/codec/cbor-encode.ts';
import { MAJOR } from '../../events/codec/cbor-head.ts';
import { executePlan, planBody, type AcceptContext, type Accepted } from '../accept.ts';
import type { Plan, Rejection } from '../accept-plan.ts';
import type { Claim } from '../http/claim.ts';
import type { ImportedEvent } from '../importers/event-maker.ts';

export type Draft = {
  /** Adds events of one line or sample (0: of the request itself). Throws `invalid_trace` or `run_deleted` with the line, `upload_too_large`, `overloaded`. */
  add(events: readonly ImportedEvent[], line: number): Promise<void>;
  /** Says how many bytes of text are in memory beside the events. */
  hold(bytes: number): void;
  /** Appends everything, in order; resolves when all is durable. Throws what storing failed with; sending the request again is the remedy. */
  commit(): Promise<void>;
};

export type DraftPorts = {
  readonly accept: AcceptContext;
  readonly claim: Claim;
  readonly maxEventBytes: number;
  /** What messages call the places of events. */
  readonly unit: 'line' | 'sample';
  readonly onAccepted: (accepted: Accepted, bytes: number) => void;
};

/** A plan is made of this many bytes at a time; one larger event goes alone. */
const CHUNK_BYTES = 512 * 1024;
const CHUNK_EVENTS = 5_000;
/** Text is claimed in steps, so that not every line changes the claim. */
const HOLD_STEP = 64 * 1024;

export function openDraft(ports: DraftPorts): Draft {
  const { accept, claim } = ports;
  const maxEvents = Math.min(CHUNK_EVENTS, accept.limits.items);
  const chunks: Buffer[] = [];
  let open: { slices: Uint8Array[]; lines: number[]; bytes: number } = { slices: [], lines: [], bytes: 0 };
  let kept = 0;
  let held = 0;

  const close = async (): Promise<void> => {
    const { slices, lines } = open;
    if (slices.length === 0) return;
    open = { slices: [], lines: [], bytes: 0 };
    const chunk = arrayOf(slices);
    claim.grow(chunk.length);
    kept += chunk.length;
    if (kept > ports.maxEventBytes) {
      const message = `the events of this upload have more than ${ports.maxEventBytes} bytes; send smaller uploads`;
      throw new TapedeckError('upload_too_large', message, { details: { limit: ports.maxEventBytes } });
    }
    const { rejected } = await planOf(chunk, accept);
    const first = rejected[0];
    if (first !== undefined) throw refusal(first, lines[first.index] as number, ports.unit);
    chunks.push(chunk);
  };
  return {
    async add(events, line) {
      for (const { slice } of events) {
        if (open.slices.length > 0 && (open.bytes + slice.length > CHUNK_BYTES || open.slices.length >= maxEvents)) await close();
        open.slices.push(slice);
        open.lines.push(line);
        open.bytes += slice.length;
      }
    },
    hold(bytes) {
      const wanted = Math.ceil(bytes / HOLD_STEP) * HOLD_STEP;
      if (wanted > held) claim.grow(wanted - held);
      else claim.shrink(held - wanted);
      held = wanted;
    },
    async commit() {
      await close();
      for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
        const accepted = await executePlan(await planOf(chunk, accept), accept);
        ports.onAccepted(accepted, chunk.length);
        if (accepted.failure !== null)
          throw new TapedeckError(accepted.failure.code, `${accepted.failure.message}; send the same request again`);
        const first = accepted.rejected[0];
        if (first !== undefined) throw refusal(first, 0, ports.unit);
        claim.shrink(chunk.length);
      }
    },
  };
}

async function planOf(chunk: Buffer, accept: AcceptContext): Promise<Plan> {
  const plan = await planBody(chunk, 'cbor', accept, new ByteWriter(0));
  if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
  return plan.value;
}

function refusal({ code, message, field }: Rejection, line: number, unit: 'line' | 'sample'): TapedeckError {
  const at = line > 0 ? `${unit} ${line}: ` : '';
  if (code === 'run_deleted') return new TapedeckError('run_deleted', `${at}${message}`);
  const details = { ...(line > 0 && { [unit]: line }), code, ...(field !== undefined && { field }) };
  return new TapedeckError('invalid_trace', `${at}${field === undefined ? '' : `${field}: `}${message} (${code}); nothing was stored`, {
    details,
  });
}

function arrayOf(slices: readonly Uint8Array[]): Buffer {
  const head = new ByteWriter(16);
  writeHead(MAJOR.array, slices.length, head);
  return Buffer.concat([head.view(), ...slices]);
}
