/** Narrows which tokens of an answer of the environment are learned (algorithm `echo`). Comes from a module of the server's configuration. */
import type { MemberTrace, NodeTokens } from '../groups/ready-group.ts';

export type TokenFilter = {
  readonly name: string;
  /** One entry per token of `node`, 1 = learn it; null = learn all. Pure. */
  readonly keep: (node: NodeTokens, trace: MemberTrace) => Uint8Array | null;
};
