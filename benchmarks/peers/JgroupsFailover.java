import java.util.Locale;
import java.util.logging.LogManager;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;

/**
 * One member of a JGroups cluster for benchmarks/failover.py and benchmarks/views.py: multicasts at a rate in total order, and
 * tells of silences, of views, and of whether it is the coordinator, which orders.
 *
 * <p>Arguments: CONFIGURATION NAME RATE.
 */
public final class JgroupsFailover implements Receiver {
    private static final double GAP_SECONDS = 0.03;
    private long last = System.nanoTime();
    private long delivered;
    private volatile boolean leads;
    private volatile long epoch;
    private final JChannel channel;

    private JgroupsFailover(JChannel channel) {
        this.channel = channel;
    }

    @Override
    public synchronized void receive(Message message) {
        long now = System.nanoTime();
        if ((now - last) / 1e9 > GAP_SECONDS) {
            System.out.printf(Locale.ROOT, "{\"gap\": [%.6f, %.6f]}%n", last / 1e9, now / 1e9);
            System.out.flush();
        }
        last = now;
        delivered++;
    }

    @Override
    public void viewAccepted(View view) {
        leads = view.getCoord().equals(channel.getAddress());
        epoch = view.getViewId().getId();
        System.out.printf(Locale.ROOT, "{\"view\": %.6f, \"members\": %d}%n", System.nanoTime() / 1e9, view.size());
        System.out.flush();
    }

    public static void main(String[] words) throws Exception {
        // It says of each message that it has had before that it has had it before.
        LogManager.getLogManager().reset();
        double rate = Double.parseDouble(words[2]);
        JChannel channel = new JChannel(words[0]).name(words[1]);
        JgroupsFailover member = new JgroupsFailover(channel);
        channel.setReceiver(member);
        channel.connect("failover");
        Thread sender = new Thread(() -> {
            long due = System.nanoTime();
            try {
                while (true) {
                    channel.send(new BytesMessage(null, new byte[100]));
                    due = Math.max(due + (long) (1e9 / rate), System.nanoTime() - 100_000_000L);
                    long wait = due - System.nanoTime();
                    if (wait > 0) {
                        Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
                    }
                }
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        }, "sender");
        sender.setDaemon(true);
        sender.start();
        while (true) {
            synchronized (member) {
                System.out.printf(
                        "{\"leads\": %b, \"epoch\": %d, \"delivered\": %d, \"offset\": 0}%n",
                        member.leads, member.epoch, member.delivered);
                System.out.flush();
            }
            Thread.sleep(100);
        }
    }
}
