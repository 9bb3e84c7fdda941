/**
 * The prints of a request's messages, made while the engine works. A chat request mostly repeats the text of an earlier one of its trace and adds to it: what is repeated
 * to the byte has the prints of the nodes where it was found then, and is not compared message by message again.
 */
import { createHash } from 'node:crypto';
import type { Message } from '../dialects/dialect.ts';
import { addPrint, PRINT_WORDS, type Prints } from '../graph/message-print.ts';
import { NONE, pathTo, type TraceGraph } from '../graph/trace-graph.ts';
import { skipSpace, topMembers } from '../upstreams/json-walk.ts';
import type { Inbound } from './inbound.ts';

/** The text of the messages of an earlier request, and the node that its last message is. */
export type Printed = { readonly length: number; readonly digest: string; readonly node: number };

export type Printing = {
  /** Finishes what is not done yet. */
  take(): Prints;
  /** The request's messages are the nodes down to `node`, each the same: the next request may go by its text. */
  remember(node: number): void;
};

/** Earlier requests of a trace that are known by their text: one for each of a few conversations that take turns. */
const MAX_KNOWN = 4;
/** Messages hashed before others have a turn: about a millisecond. */
const AT_ONCE = 256;

/** `known` is the trace's own list: newest first, changed here. Begins by itself in the next turn of the event loop. */
export function startPrinting(graph: TraceGraph, known: Printed[], inbound: Inbound, messages: readonly Message[]): Printing {
  const words = new Uint32Array(messages.length * PRINT_WORDS);
  let done = 0;
  let text: MessagesText | null = null;
  const begin = (): void => {
    text = inbound.endpoint.dialect === 'openai.chat' ? readText(inbound.text, known) : null;
    if (text?.same != null) done = copyPrints(graph, text.same.node, words, messages.length);
  };
  const go = (upTo: number): void => {
    for (; done < upTo; done++) addPrint(messages[done] as Message, words, done * PRINT_WORDS);
  };
  let hasBegun = false;
  const turn = (): void => {
    if (!hasBegun) {
      hasBegun = true;
      begin();
    }
    if (done === messages.length) return;
    go(Math.min(messages.length, done + AT_ONCE));
    if (done < messages.length) setImmediate(turn);
  };
  setImmediate(turn);
  return {
    take() {
      if (!hasBegun) {
        hasBegun = true;
        begin();
      }
      go(messages.length);
      return { roles: messages.map(({ role }) => role), words };
    },
    remember(node) {
      if (text === null || node === NONE || graph.depths[node] !== messages.length) return;
      const { length, digest, same } = text;
      const at = known.findIndex((k) => k === same || (k.length === length && k.digest === digest));
      if (at >= 0) known.splice(at, 1);
      known.unshift({ length, digest, node });
      if (known.length > MAX_KNOWN) known.pop();
    },
  };
}

/** The elements of `messages` as they are written, without the brackets. `same`: the longest known beginning of them. */
type MessagesText = { readonly length: number; readonly digest: string; readonly same: Printed | null };

function readText(body: string, known: readonly Printed[]): MessagesText | null {
  const member = topMembers(body).find(({ key }) => key === 'messages');
  if (member === undefined) return null;
  const from = skipSpace(body, member.valueAt) + 1;
  const end = body.lastIndexOf(']', member.end - 1);
  const hash = createHash('sha256');
  let at = from;
  let same: Printed | null = null;
  for (const each of known.toSorted((a, b) => a.length - b.length)) {
    const upTo = from + each.length;
    if (upTo > end || !isBetween(body, upTo)) continue;
    hash.update(body.slice(at, upTo));
    at = upTo;
    if (hash.copy().digest('base64') === each.digest) same = each;
  }
  const last = trimmedEnd(body, end);
  // a known one may end in the space before the bracket, never behind it
  if (at > last) return null;
  hash.update(body.slice(at, last));
  return { length: last - from, digest: hash.digest('base64'), same };
}

/** Whether an element ends here: a comma or the bracket follows. */
function isBetween(body: string, at: number): boolean {
  const next = body.charCodeAt(skipSpace(body, at));
  return next === 0x2c || next === 0x5d;
}

function trimmedEnd(body: string, end: number): number {
  let at = end;
  while (body.charCodeAt(at - 1) <= 0x20) at--;
  return at;
}

function copyPrints(graph: TraceGraph, node: number, words: Uint32Array, messages: number): number {
  const path = pathTo(graph, node);
  if (path.length > messages) return 0;
  for (const [k, at] of path.entries()) words.set(graph.prints.subarray(at * PRINT_WORDS, (at + 1) * PRINT_WORDS), k * PRINT_WORDS);
  return path.length;
}
