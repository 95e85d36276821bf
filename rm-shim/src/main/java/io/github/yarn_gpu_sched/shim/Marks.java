package io.github.yarn_gpu_sched.shim;

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * What may have changed since it was last looked at. The resource manager's threads only mark, one thread drains; marking what
 * is marked changes nothing, so that the sets never hold more than the servers and jobs there are.
 */
public final class Marks<S, J> {
  /** Where many hurry, the thread looks by itself so often: to wake it costs who does more than all of his marks. */
  private static final long LOOK_NS = TimeUnit.MICROSECONDS.toNanos(500);
  private static final long MANY_WITHIN_NS = TimeUnit.SECONDS.toNanos(1);
  private final Set<S> servers = ConcurrentHashMap.newKeySet();
  private final Set<J> jobs = ConcurrentHashMap.newKeySet();
  private final Counters counters;
  private final AtomicBoolean queues = new AtomicBoolean();
  private final AtomicBoolean urgent = new AtomicBoolean();
  private volatile Thread sleeper;
  private volatile boolean looking;
  private long hurriedAtNs = System.nanoTime() - MANY_WITHIN_NS;

  public Marks(Counters counters) { this.counters = counters; }
  public void server(S server) { if (!servers.add(server)) counters.add(Counters.Of.COALESCED, 1); }
  public void job(J job) { if (!jobs.add(job)) counters.add(Counters.Of.COALESCED, 1); }
  public void queues() { queues.set(true); }

  /** What is marked shall be sent at once: asks, completions and outcomes don't wait for the batch's time. */
  public void hurry() { if (!urgent.getAndSet(true) && !looking) wake(); }
  void wake() { LockSupport.unpark(sleeper); }

  /** Returns early when somebody hurries or wakes. */
  void sleep(long ns) {
    sleeper = Thread.currentThread();
    looking = System.nanoTime() - hurriedAtNs < MANY_WITHIN_NS;  // before urgent is read: whoever hurries reads them in turn
    if (!urgent.get()) LockSupport.parkNanos(this, looking ? Math.min(ns, LOOK_NS) : ns);
  }

  boolean urgent() { return urgent.get(); }

  /** Called before draining: a hurry that comes later may be about something that the draining misses. */
  void calm() { if (urgent.getAndSet(false)) hurriedAtNs = System.nanoTime(); }
  boolean drainQueues() { return queues.getAndSet(false); }
  List<S> drainServers() { return drain(servers); }
  List<J> drainJobs() { return drain(jobs); }

  private static <T> List<T> drain(Set<T> marked) {
    List<T> drained = new ArrayList<>(marked);
    drained.forEach(marked::remove);  // before it is looked at: a change from now on marks it again
    return drained;
  }
}
