package io.github.yarn_gpu_sched.shim;

import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * What may have changed since it was last looked at. The resource manager's threads only mark, one thread drains; marking what
 * is marked changes nothing, so that the sets never hold more than the servers and jobs there are.
 */
public final class Marks<S, J> {
  private final Set<S> servers = ConcurrentHashMap.newKeySet();
  private final Set<J> jobs = ConcurrentHashMap.newKeySet();
  private final Counters counters;
  private final AtomicBoolean queues = new AtomicBoolean();
  private final AtomicBoolean urgent = new AtomicBoolean();
  private volatile Thread sleeper;

  public Marks(Counters counters) { this.counters = counters; }
  public void server(S server) { if (!servers.add(server)) counters.add(Counters.Of.COALESCED, 1); }
  public void job(J job) { if (!jobs.add(job)) counters.add(Counters.Of.COALESCED, 1); }
  public void queues() { queues.set(true); }

  /** What is marked shall be sent at once: asks, completions and outcomes don't wait for the batch's time. */
  public void hurry() { if (!urgent.getAndSet(true)) wake(); }
  void wake() { LockSupport.unpark(sleeper); }

  /** Returns early when somebody hurries or wakes. */
  void sleep(long ns) {
    sleeper = Thread.currentThread();
    if (!urgent.get()) LockSupport.parkNanos(this, ns);
  }

  boolean urgent() { return urgent.get(); }

  /** Called before draining: a hurry that comes later may be about something that the draining misses. */
  void calm() { urgent.set(false); }
  boolean drainQueues() { return queues.getAndSet(false); }
  List<S> drainServers() { return drain(servers); }
  List<J> drainJobs() { return drain(jobs); }

  private static <T> List<T> drain(Set<T> marked) {
    List<T> drained = new ArrayList<>(marked);
    drained.forEach(marked::remove);  // before it is looked at: a change from now on marks it again
    return drained;
  }
}
