/**
 * The numbers under which events go over the wire. As a rule those they were encoded with. A sender that cannot go on with them (the producer was fenced, somebody else
 * has used its numbers, or the server knows less than it did) goes on under a new producer id from some event on; events keep their ids, so readers still recognise a copy.
 */
import { encodeVoid, producerHead, renumber, type ProducerHead } from '../encode-event.ts';

/** `base` is the number that became 0. */
export type WireNumbers = { readonly head: ProducerHead; readonly base: number };
/** As it is kept beside the segments, so that whoever drains them goes on with the same. */
export type SavedNumbers = { readonly producer: string; readonly base: number };

export function savedForm({ head, base }: WireNumbers): SavedNumbers {
  return { producer: head.id, base };
}

/** Null when the text says nothing usable: then the numbers inside the events hold. */
export function readSaved(text: string): WireNumbers | null {
  try {
    const value = JSON.parse(text) as Partial<SavedNumbers> | null;
    if (typeof value?.producer !== 'string' || typeof value.base !== 'number' || !Number.isSafeInteger(value.base)) return null;
    return { head: producerHead(value.producer), base: value.base };
  } catch {
    return null;
  }
}

/** Numbers the copies of events in a body. They must have been encoded under an id as long as the new one. */
export function applyNumbers(numbers: WireNumbers | null, body: Buffer, starts: readonly number[], from: number): void {
  if (numbers === null) return;
  for (const [i, at] of starts.entries()) renumber(body, at, numbers.head, from + i - numbers.base);
}

/** Placeholders for the numbers `from` to `to`. */
export function voidsOf(head: ProducerHead, base: number, from: number, to: number, newId: () => string): Uint8Array[] {
  return Array.from({ length: to - from }, (_, i) => encodeVoid(head, from + i - base, newId()));
}
