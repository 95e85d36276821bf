package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NMToken;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Lets an attempt's application master see a gang in one reply or not yet. A commit closes the gate before it takes any
 * other lock; allocate only tries it and never waits: while it is closed, what was pulled is kept back until the next reply,
 * and new asks wait until then too, so that no ask is counted both before and after the containers that answer it.
 * What is kept back is bounded by what the attempt asked for, and goes with the attempt.
 */
final class Gate {
  private final ReentrantLock lock = new ReentrantLock();
  private volatile boolean wanted;
  private final Map<ContainerId, SchedulerRequestKey> unseen = new HashMap<>();
  private final Map<String, ResourceRequest> lateAsks = new LinkedHashMap<>();
  private final List<Container> containers = new ArrayList<>();
  private final List<NMToken> tokens = new ArrayList<>();

  /** For a commit: waits for an allocate that is under way, a fraction of a millisecond. */
  void close() {
    wanted = true;
    lock.lock();
  }

  void open() {
    wanted = false;
    lock.unlock();
  }

  /** For allocate. A waiting commit goes first, or a master that polls without pause could keep it out. */
  boolean tryEnter() {
    return !wanted && lock.tryLock();
  }

  void leave() {
    lock.unlock();
  }

  /** A whole gang's container waits to be seen. Called while closed. */
  synchronized void placed(ContainerId container, SchedulerRequestKey key) {
    unseen.put(container, key);
  }

  /** Asks that came while the gate was closed, oldest first; those of the same key and place replace each other. */
  synchronized void keepAsks(List<ResourceRequest> asks) {
    for (ResourceRequest ask : asks) {
      String place = SchedulerRequestKey.create(ask) + " " + ask.getResourceName();
      lateAsks.remove(place);
      lateAsks.put(place, ask);
    }
  }

  /** What is to be asked now: late asks first. An ask is a total that counts containers which its sender has not seen. */
  synchronized List<ResourceRequest> asks(List<ResourceRequest> asks, Predicate<ContainerId> live) {
    if (lateAsks.isEmpty() && (unseen.isEmpty() || asks.isEmpty())) {
      return asks;
    }
    keepAsks(asks);
    List<ResourceRequest> all = new ArrayList<>(lateAsks.values());
    lateAsks.clear();
    unseen.keySet().removeIf(live.negate());
    for (ResourceRequest ask : all) {
      int answered = Collections.frequency(unseen.values(), SchedulerRequestKey.create(ask));
      if (answered > 0 && ResourceRequest.isAnyLocation(ask.getResourceName())) {
        ask.setNumContainers(Math.max(0, ask.getNumContainers() - answered));
      }
    }
    return all;
  }

  /** Keeps back what was pulled while the gate was closed; returns how many containers. */
  synchronized int keep(Allocation pulled) {
    containers.addAll(pulled.getContainers());
    if (pulled.getNMTokens() != null) {
      tokens.addAll(pulled.getNMTokens());
    }
    return pulled.getContainers().size();
  }

  /** The reply while closed: all but containers and their tokens. */
  static Allocation without(Allocation pulled) {
    return with(pulled, Collections.emptyList(), Collections.emptyList());
  }

  /** The reply while open: what was kept back, less what has ended since, then what was pulled now. */
  synchronized Allocation handOut(Allocation pulled, Predicate<ContainerId> live) {
    unseen.clear();
    if (containers.isEmpty() && tokens.isEmpty()) {
      return pulled;
    }
    containers.removeIf(container -> !live.test(container.getId()));
    containers.addAll(pulled.getContainers());
    if (pulled.getNMTokens() != null) {
      tokens.addAll(pulled.getNMTokens());
    }
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
