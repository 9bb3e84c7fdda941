/**
 * The states of a group and what leads from one to the next. Each signal but `score` is a decision in the log of the feed; a decision that the table
 * does not allow (somebody else was first) is ignored by everybody. Every state but the last two has an exit that does not depend on a producer: a deadline.
 */

export const GROUP_STATES = ['open', 'sealed', 'scoring', 'ready', 'cut', 'failed'] as const;
export type GroupState = (typeof GROUP_STATES)[number];

/**
 * seal: nobody else joins (`group.closed` sealed). score: the members' own rewards are there, reducers and teachers may begin. ready: members and rewards
 * are fixed (`group.ready`). fail: given up (`group.closed` failed). take: a batch holds it (`batch.cut`). return: a rewind gave it back (`feed.rewound`, recut).
 */
export type GroupSignal = 'seal' | 'score' | 'ready' | 'fail' | 'take' | 'return';

/** null = it cannot be. */
const TRANSITIONS = {
  open: { seal: 'sealed', score: null, ready: 'ready', fail: 'failed', take: null, return: null },
  sealed: { seal: null, score: 'scoring', ready: 'ready', fail: 'failed', take: null, return: null },
  scoring: { seal: null, score: null, ready: 'ready', fail: 'failed', take: null, return: null },
  ready: { seal: null, score: null, ready: null, fail: 'failed', take: 'cut', return: null },
  cut: { seal: null, score: null, ready: null, fail: null, take: 'cut', return: 'ready' },
  failed: { seal: null, score: null, ready: null, fail: null, take: null, return: null },
} as const satisfies Record<GroupState, Record<GroupSignal, GroupState | null>>;

/** The state after `signal`, or null when it is not allowed in `state`. */
export function nextState(state: GroupState, signal: GroupSignal): GroupState | null {
  return TRANSITIONS[state][signal];
}
