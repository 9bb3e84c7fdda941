/** What the fault tests ask and do beside the log: leaders, replicas, deleting a topic. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Admin } from '@platformatic/kafka';

async function withAdmin<T>(brokers: readonly string[], work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({
    clientId: 'faults',
    bootstrapBrokers: [...brokers],
    retries: 20,
    retryDelay: 250,
    timeout: 3000,
    requestTimeout: 3000,
    connectTimeout: 1000,
  });
  try {
    return await work(admin);
  } finally {
    admin.close(() => {});
  }
}

/** The id of the node that leads partition 0 of a topic. */
export async function leaderOf(brokers: readonly string[], topic: string): Promise<number> {
  return withAdmin(brokers, async (admin) => {
    const metadata = await admin.metadata({ topics: [topic], forceUpdate: true });
    return metadata.topics.get(topic)?.partitions[0]?.leader as number;
  });
}

/** Resolves when all replicas of partition 0 of every topic are in sync; gives up after a minute. */
export async function whenFullyReplicated(brokers: readonly string[], topics: readonly string[]): Promise<void> {
  for (let i = 0; i < 150; i++) {
    const done = await withAdmin(brokers, async (admin) => {
      const metadata = await admin.metadata({ topics: [...topics], forceUpdate: true });
      return topics.every((topic) => {
        const partition = metadata.topics.get(topic)?.partitions[0];
        return partition !== undefined && partition.isr.length === partition.replicas.length;
      });
    }).catch(() => false);
    if (done) return;
    await sleep(400);
  }
  throw new Error('the replicas did not catch up within a minute');
}

export async function deleteTopic(brokers: readonly string[], topic: string): Promise<void> {
  await withAdmin(brokers, async (admin) => admin.deleteTopics({ topics: [topic] }));
}
