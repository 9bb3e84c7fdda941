/**
 * hierarchical_grpo: reward minus the mean of its peers: members of the same agent, in the same ROLLOUT for `episodeAgents`, else in the group. For envs in which
 * one agent sets problems that others solve. Source: prime-rl HierarchicalGRPOAlgorithm.
 */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { groupCredit } from './group-credit.ts';
import { overParts, partsBy } from './parts.ts';

export const hierarchicalGrpo: Algorithm<{ readonly episodeAgents: readonly string[] }> = {
  name: 'hierarchical_grpo',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    episodeAgents: z.array(z.string().min(1)).min(1).meta({ description: 'agents that are compared within one rollout' }),
  }),
  streams: () => RL_STREAMS,
  score: ({ rewards, members }, { episodeAgents }) => {
    const within = new Set(episodeAgents);
    const peers = partsBy(members, (m) => JSON.stringify(within.has(m.agent) ? [m.agent, m.rollout] : [m.agent]));
    return { values: overParts(rewards, peers, (part) => groupCredit(part, { epsilon: null, singleton: 'zero' })) };
  },
};
