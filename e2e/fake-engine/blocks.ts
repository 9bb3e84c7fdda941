/** A completion as the blocks that Messages and Responses are made of: opened, filled and closed one after the other. */
import type { Completion, Piece } from './completion.ts';

export type Block =
  { readonly type: 'reasoning' } | { readonly type: 'content' } | { readonly type: 'call'; readonly id: string; readonly name: string };
/** `text` of a close: all of the block. `tokens`: ids sampled since the event before. */
export type BlockEvent = {
  readonly kind: 'open' | 'delta' | 'close';
  readonly index: number;
  readonly block: Block;
  readonly text: string;
  readonly tokens: number;
};

export function* blockEvents(completion: Completion): Generator<BlockEvent> {
  let open: { index: number; block: Block; call: number | null; text: string } | null = null;
  let next = 0;
  let tokens = 0;
  const spent = (): number => {
    const since = tokens;
    tokens = 0;
    return since;
  };
  for (const piece of completion.pieces) {
    tokens++;
    const text = piece.content ?? piece.reasoning ?? piece.call?.arguments;
    if (text === undefined) continue;
    const call = piece.call?.index ?? null;
    if (open === null || open.call !== call || (call === null && open.block.type !== typeOf(piece))) {
      if (open !== null) yield { kind: 'close', index: open.index, block: open.block, text: open.text, tokens: 0 };
      open = { index: next++, block: blockOf(piece), call, text: '' };
      yield { kind: 'open', index: open.index, block: open.block, text: '', tokens: spent() };
    }
    if (text === '') continue;
    open.text += text;
    yield { kind: 'delta', index: open.index, block: open.block, text, tokens: spent() };
  }
  if (open !== null) yield { kind: 'close', index: open.index, block: open.block, text: open.text, tokens: spent() };
}

export function blocksOf(completion: Completion): { readonly block: Block; readonly text: string }[] {
  return [...blockEvents(completion)].filter((e) => e.kind === 'close').map(({ block, text }) => ({ block, text }));
}

function typeOf(piece: Piece): 'reasoning' | 'content' {
  return piece.content === undefined ? 'reasoning' : 'content';
}

function blockOf(piece: Piece): Block {
  return piece.call === undefined ? { type: typeOf(piece) } : { type: 'call', id: piece.call.id ?? '', name: piece.call.name ?? '' };
}
