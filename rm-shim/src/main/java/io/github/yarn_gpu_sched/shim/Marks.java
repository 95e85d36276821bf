package io.github.yarn_gpu_sched.shim;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

/**
 * What may have changed since it was last looked at. The resource manager's threads only mark, one thread drains; marking
 * what is marked already changes nothing, so that the sets never hold more than the servers and jobs there are.
 */
public final class Marks<S, J> {
  private final Set<S> servers = ConcurrentHashMap.newKeySet();
  private final Set<J> jobs = ConcurrentHashMap.newKeySet();
  private final Counters counters;
  private volatile boolean queues;
  private volatile boolean urgent;
  private volatile Thread sleeper;

  public Marks(Counters counters) {
    this.counters = counters;
  }

  public void server(S server) {
    add(servers, server);
  }

  public void job(J job) {
    add(jobs, job);
  }

  public void queues() {
    queues = true;
  }

  /** What is marked shall be sent at once: asks, completions and outcomes don't wait for the batch's time. */
  public void hurry() {
    if (!urgent) {
      urgent = true;
      wake();
    }
  }

  public void wake() {
    LockSupport.unpark(sleeper);
  }

  /** Called by the draining thread only. Returns at once when somebody hurried or woke it since it last slept. */
  public void sleep(long ns) {
    sleeper = Thread.currentThread();
    if (!urgent) {
      LockSupport.parkNanos(this, ns);
    }
  }

  public boolean urgent() {
    return urgent;
  }

  public boolean any() {
    return queues || !servers.isEmpty() || !jobs.isEmpty();
  }

  /** Before draining: a hurry that comes later is about something that may be missed. */
  public void calm() {
    urgent = false;
  }

  public boolean drainQueues() {
    boolean marked = queues;
    queues = false;
    return marked;
  }

  public List<S> drainServers() {
    return drain(servers);
  }

  public List<J> drainJobs() {
    return drain(jobs);
  }

  private <T> void add(Set<T> marked, T what) {
    if (!marked.add(what)) {
      counters.coalesced.increment();
    }
  }

  private static <T> List<T> drain(Collection<T> marked) {
    List<T> drained = new ArrayList<>();
    for (Iterator<T> all = marked.iterator(); all.hasNext(); ) {
      drained.add(all.next());
      all.remove();  // before it is looked at: a change from now on marks it again
    }
    return drained;
  }
}
