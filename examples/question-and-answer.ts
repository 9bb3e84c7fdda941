/** A question-and-answer environment: a taskset of sums, several rollouts of each task as a group, and a reward computed by code. */
import { openWorld } from './example-world.ts';

type Task = { readonly key: string; readonly question: string; readonly answer: number };

const TASKS: readonly Task[] = Array.from({ length: 8 }, (_, i) => {
  const [a, b] = [8 + i * 7, 41 - i * 3];
  return { key: `add-${i}`, question: `What is ${a} + ${b}? Put the number inside <answer> tags.`, answer: a + b };
});
const GROUP_SIZE = 4;

/** 1 when the number inside the tags is the right one. */
function correct(text: string, { answer }: Task): number {
  const found = /<answer>\s*(-?\d+)\s*<\/answer>/.exec(text)?.[1];
  return found !== undefined && Number(found) === answer ? 1 : 0;
}

await using world = await openWorld();
const { recorder, client, model, withTokens } = world;

await recorder.run({ kind: 'eval', name: 'question and answer', model, envs: [{ id: 'sums' }] }, async (run) => {
  for (const task of TASKS) {
    const group = { id: `${run.id}/${task.key}`, size: GROUP_SIZE };
    const attempts = Array.from({ length: GROUP_SIZE }, (_, attempt) =>
      run.rollout({ env: 'sums', task: { key: task.key, data: task }, group, work: { type: 'eval' }, attempt }, async (rollout) => {
        const text = await rollout.trace({ agent: { name: 'solver', model, trainable: true } }, async (trace) => {
          const answer = await client.chat.completions.create({
            model,
            messages: [{ role: 'user', content: task.question }],
            ...withTokens,
          });
          const content = answer.choices[0]?.message.content ?? '';
          trace.metric('length', content.length);
          return content;
        });
        rollout.reward('correct', correct(text, task), 1, { kind: 'code', name: 'answer tags' });
        return correct(text, task);
      }),
    );
    const scores = await Promise.all(attempts);
    run.sealGroup(group.id, scores.length);
    console.log(`${task.key}: ${scores.filter((score) => score === 1).length} of ${scores.length} correct`);
  }
});
