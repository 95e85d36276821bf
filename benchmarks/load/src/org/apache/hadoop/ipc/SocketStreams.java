package org.apache.hadoop.ipc;

import java.io.IOException;
import java.net.Socket;

/** Here only because Hadoop's SASL client wants these streams, and their constructor is for this package alone. */
public final class SocketStreams {
  private SocketStreams() {}

  /** Hadoop's framing over a connected socket. */
  public static Client.IpcStreams over(Socket socket, int response_bytes_max) throws IOException {
    return new Client.IpcStreams(socket, response_bytes_max);
  }
}
