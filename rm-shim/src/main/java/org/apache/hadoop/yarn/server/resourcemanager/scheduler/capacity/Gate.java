package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.github.yarn_gpu_sched.shim.Counters;
import java.util.*;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.*;
import org.apache.hadoop.yarn.api.records.*;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Lets an attempt's application master see a gang in one reply or not yet. A commit closes the gate before it takes any other
 * lock; allocate only tries it and never waits: while it is closed, what is pulled is kept back until the next reply, and asks
 * wait as well, so that none is counted beside the containers that answer it. Bounded by what the attempt asked for.
 */
final class Gate {
  private final ReentrantLock lock = new ReentrantLock();
  private volatile boolean wanted;
  /** What was asked by each of them: the key, and how many GPUs, since masters ask several sizes at one key. */
  private final Map<ContainerId, Map.Entry<SchedulerRequestKey, Integer>> unseen = new HashMap<>();
  private final Map<String, ResourceRequest> lateAsks = new LinkedHashMap<>();
  private final List<Container> containers = new ArrayList<>();
  private final List<NMToken> tokens = new ArrayList<>();

  /** For a commit: waits for an allocate that is under way, a fraction of a millisecond. */
  void close() { wanted = true; lock.lock(); }
  void open() { wanted = false; lock.unlock(); }

  /** For allocate. A waiting commit goes first, or a master that polls without pause could keep it out. */
  boolean tryEnter() { return !wanted && lock.tryLock(); }
  void leave() { lock.unlock(); }

  /** One allocate of the master; pull applies asks and returns what was committed. Late asks go with the next. */
  Allocation pass(List<ResourceRequest> asks, Function<List<ResourceRequest>, Allocation> pull, Predicate<ContainerId> live, Counters counters) {
    if (tryEnter()) {
      try {
        return handOut(pull.apply(asks(asks, live)), live);
      } finally {
        leave();
      }
    }
    Allocation pulled = pull.apply(new ArrayList<>());
    counters.add(Counters.Of.WITHHELD, pulled.getContainers().size());
    return keep(asks, pulled);
  }

  /** A whole gang's container waits to be seen. */
  synchronized void placed(GangContainer one) { unseen.put(one.getContainerId(), asked(one.getAllocatedSchedulerKey(), one.getContainer().getResource())); }

  /** The reply while closed: all but containers and their tokens. */
  synchronized Allocation keep(List<ResourceRequest> asks, Allocation pulled) {
    for (ResourceRequest ask : asks) lateAsks.put(SchedulerRequestKey.create(ask) + ask.getResourceName(), ask);
    containers.addAll(pulled.getContainers());
    if (pulled.getNMTokens() != null) tokens.addAll(pulled.getNMTokens());
    return with(pulled, Collections.emptyList(), Collections.emptyList());
  }

  /** What is to be asked now, late asks first. An ask is a total that still counts containers which its sender has not seen. */
  synchronized List<ResourceRequest> asks(List<ResourceRequest> asks, Predicate<ContainerId> live) {
    List<ResourceRequest> all = new ArrayList<>(lateAsks.values());
    all.addAll(asks);
    lateAsks.clear();
    unseen.keySet().removeIf(live.negate());
    for (ResourceRequest ask : all) {
      if (unseen.isEmpty() || !ResourceRequest.isAnyLocation(ask.getResourceName())) continue;
      int answered = Collections.frequency(unseen.values(), asked(SchedulerRequestKey.create(ask), ask.getCapability()));
      ask.setNumContainers(Math.max(0, ask.getNumContainers() - answered));
    }
    return all;
  }

  private static Map.Entry<SchedulerRequestKey, Integer> asked(SchedulerRequestKey key, Resource each) { return Map.entry(key, Words.gpus(each)); }

  /** The reply while open: what was kept back, less what has ended since, and what is pulled now. */
  synchronized Allocation handOut(Allocation pulled, Predicate<ContainerId> live) {
    unseen.clear();
    if (containers.isEmpty() && tokens.isEmpty()) return pulled;
    containers.removeIf(container -> !live.test(container.getId()));
    keep(Collections.emptyList(), pulled);
    Allocation all = with(pulled, new ArrayList<>(containers), new ArrayList<>(tokens));
    containers.clear();
    tokens.clear();
    return all;
  }

  private static Allocation with(Allocation pulled, List<Container> containers, List<NMToken> tokens) {
    return new Allocation(containers, pulled.getResourceLimit(), pulled.getStrictContainerPreemptions(),
        pulled.getContainerPreemptions(), pulled.getResourcePreemptions(), tokens, pulled.getIncreasedContainers(),
        pulled.getDecreasedContainers(), pulled.getPromotedContainers(), pulled.getDemotedContainers(),
        pulled.getPreviousAttemptContainers(), pulled.getRejectedRequest());
  }
}
