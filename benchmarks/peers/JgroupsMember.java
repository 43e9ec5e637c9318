import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.util.MessageBatch;

/**
 * One member of a JGroups cluster that sends and counts: what benchmarks/live_peers.py compares with.
 *
 * <p>Arguments: CONFIGURATION MEMBERS INDEX SIZE SECONDS RATE. It joins, waits until so many members have, sends as fast as
 * the cluster takes it (or, when RATE is not 0, so many messages a second), and prints one JSON object.
 */
public final class JgroupsMember implements Receiver {
    private static final double WARM_UP_SECONDS = 4; // the compiler needs some
    private static final double SETTLE_SECONDS = 1;
    private static final long JOIN_NANOSECONDS = 40_000_000_000L;
    private static final int STAMP_BYTES = 16;
    private static final int LATENCIES_MAX = 4_000_000;

    private final boolean withLatency;
    // Deliveries of a total order come one after another, but not always from the same thread.
    private final AtomicLong delivered = new AtomicLong();
    private final long[] latencies;
    private int latencyCount;
    private volatile int members;

    private JgroupsMember(boolean withLatency) {
        this.withLatency = withLatency;
        latencies = new long[withLatency ? 2 * LATENCIES_MAX : 0];
    }

    @Override
    public void receive(Message message) {
        delivered.setPlain(delivered.getPlain() + 1);
        if (withLatency) {
            note(message);
        }
    }

    @Override
    public void receive(MessageBatch batch) {
        delivered.setRelease(delivered.getPlain() + batch.size());
        if (withLatency) {
            batch.forEach(this::note);
        }
    }

    private synchronized void note(Message message) {
        ByteBuffer stamp = ByteBuffer.wrap(message.getArray(), message.getOffset(), message.getLength());
        if (latencyCount < LATENCIES_MAX) {
            latencies[2 * latencyCount + 1] = System.nanoTime() - stamp.getLong();
            latencies[2 * latencyCount] = stamp.getLong();
            latencyCount++;
        }
    }

    @Override
    public void viewAccepted(View view) {
        members = view.size();
    }

    private static double processorSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    public static void main(String[] words) throws Exception {
        String configuration = words[0];
        int expected = Integer.parseInt(words[1]);
        int index = Integer.parseInt(words[2]);
        int size = Integer.parseInt(words[3]);
        double seconds = Double.parseDouble(words[4]);
        double rate = Double.parseDouble(words[5]);
        JgroupsMember member = new JgroupsMember(rate > 0);
        JChannel channel = new JChannel(configuration).name("m" + index);
        channel.setReceiver(member);
        channel.connect("bench");
        for (long until = System.nanoTime() + JOIN_NANOSECONDS; member.members < expected; Thread.sleep(10)) {
            if (System.nanoTime() > until) {
                System.err.println("only " + member.members + " of " + expected + " members joined");
                System.exit(1);
            }
        }
        Thread.sleep(200);

        long start = System.nanoTime();
        long warm = start + (long) (WARM_UP_SECONDS * 1e9);
        long end = warm + (long) (seconds * 1e9);
        AtomicLong sent = new AtomicLong();
        Thread sender = new Thread(() -> {
            try {
                long interval = rate > 0 ? (long) (1e9 * expected / rate) : 0;
                long due = start + interval * index / expected;
                byte[] payload = new byte[size];
                for (long number = 0; System.nanoTime() < end; number++) {
                    if (interval > 0) {
                        for (long now = System.nanoTime(); now < due; now = System.nanoTime()) {
                            Thread.sleep(0, (int) Math.min(999_999, due - now));
                        }
                        due += interval;
                        payload = new byte[Math.max(size, STAMP_BYTES)];
                        ByteBuffer.wrap(payload).putLong(System.nanoTime()).putLong(index);
                    }
                    channel.send(new BytesMessage(null, payload));
                    sent.setRelease(number + 1);
                }
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        }, "sender");
        sender.start();
        Thread.sleep((long) (WARM_UP_SECONDS * 1e3));
        long began = System.nanoTime();
        long before = member.delivered.get();
        double usedBefore = processorSeconds();
        Thread.sleep((long) (seconds * 1e3));
        double measured = (System.nanoTime() - began) / 1e9;
        long after = member.delivered.get();
        double cores = (processorSeconds() - usedBefore) / measured;
        sender.join();
        Thread.sleep((long) (SETTLE_SECONDS * 1e3));
        StringBuilder report = new StringBuilder(String.format(
                java.util.Locale.ROOT,
                "{\"messages_per_second\": %.1f, \"sent\": %d, \"delivered\": %d, \"cores\": %.3f, \"nanoseconds\": [",
                (after - before) / measured, sent.get(), member.delivered.get(), cores));
        synchronized (member) {
            for (int i = 0; i < member.latencyCount; i++) {
                report.append(i == 0 ? "" : ", ").append('[').append(member.latencies[2 * i]).append(", ");
                report.append(member.latencies[2 * i + 1]).append(']');
            }
        }
        System.out.println(report.append("]}"));
        System.out.flush();
        System.exit(0); // leaving politely would only have the others install views
    }
}
