/** A Kafka distribution without a download page: the broker's jars from Maven (45 jars, 43 MiB, half a minute). */
import { mavenJars } from '../maven-jars.ts';

export const KAFKA_VERSION = '4.4.0';

/** The folder of jars. TAPEDECK_KAFKA_JARS names another place for it. */
export async function kafkaJars(): Promise<string> {
  return mavenJars({
    name: 'kafka-jars',
    version: KAFKA_VERSION,
    artifacts: [
      `org.apache.kafka:kafka_2.13:${KAFKA_VERSION}`,
      'org.apache.logging.log4j:log4j-slf4j-impl:2.25.3',
      'org.apache.logging.log4j:log4j-core:2.25.3',
    ],
    cache: process.env['TAPEDECK_KAFKA_JARS'],
  });
}
