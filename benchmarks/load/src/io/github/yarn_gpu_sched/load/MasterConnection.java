package io.github.yarn_gpu_sched.load;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.ipc.Client;
import org.apache.hadoop.ipc.ClientId;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.ipc.RpcConstants;
import org.apache.hadoop.ipc.Server;
import org.apache.hadoop.ipc.SocketStreams;
import org.apache.hadoop.ipc.protobuf.ProtobufRpcEngine2Protos.RequestHeaderProto;
import org.apache.hadoop.ipc.protobuf.RpcHeaderProtos.RpcRequestHeaderProto.OperationProto;
import org.apache.hadoop.ipc.protobuf.RpcHeaderProtos.RpcResponseHeaderProto;
import org.apache.hadoop.ipc.protobuf.RpcHeaderProtos.RpcResponseHeaderProto.RpcStatusProto;
import org.apache.hadoop.security.SaslRpcClient;
import org.apache.hadoop.security.SaslRpcServer.AuthMethod;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.thirdparty.protobuf.Message;
import org.apache.hadoop.util.ProtoUtil;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.AllocateRequestPBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.AllocateResponsePBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.FinishApplicationMasterRequestPBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.FinishApplicationMasterResponsePBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.RegisterApplicationMasterRequestPBImpl;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.RegisterApplicationMasterResponsePBImpl;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.AllocateResponseProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.FinishApplicationMasterResponseProto;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.RegisterApplicationMasterResponseProto;

/**
 * One master's connection to the ResourceManager, by Hadoop's RPC and SASL, without Hadoop's client.
 *
 * <p>YARN tells masters apart by their connection's token, so each needs a connection, and Hadoop's client spends two
 * threads on each: ten thousand masters in one process would be more threads than a machine has. Here the caller's
 * thread does all the work. Calls are made one at a time.
 */
final class MasterConnection implements ApplicationMasterProtocol, AutoCloseable {
  private static final int RESPONSE_BYTES_MAX = 64 << 20;
  private static final int SERVICE_CLASS = 0; // the ordinary one
  private static final int ANSWER_MS_MAX = 60_000;
  private static final String PROTOCOL = RPC.getProtocolName(ApplicationMasterProtocolPB.class);

  private final byte[] client_id = ClientId.getClientId();
  private final Socket socket;
  private final Client.IpcStreams streams;
  private int call_id;

  /** Connects and proves by {@code user}'s token which attempt this is. */
  MasterConnection(InetSocketAddress address, UserGroupInformation user, Configuration conf) throws IOException {
    socket = new Socket(address.getAddress(), address.getPort());
    try {
      socket.setTcpNoDelay(true);
      socket.setSoTimeout(ANSWER_MS_MAX);
      streams = SocketStreams.over(socket, RESPONSE_BYTES_MAX);
      streams.out.write(RpcConstants.HEADER.array());
      streams.out.write(RpcConstants.CURRENT_VERSION);
      streams.out.write(SERVICE_CLASS);
      streams.out.write(Server.AuthProtocol.SASL.callId);
      streams.out.flush();
      SaslRpcClient sasl = new SaslRpcClient(user, ApplicationMasterProtocolPB.class, address, conf);
      AuthMethod method = sasl.saslConnect(streams);
      sasl.dispose();
      send(RpcConstants.CONNECTION_CONTEXT_CALL_ID, RpcConstants.INVALID_RETRY_COUNT,
          ProtoUtil.makeIpcConnectionContext(PROTOCOL, user, method));
    } catch (IOException | RuntimeException e) {
      socket.close();
      throw e;
    }
  }

  @Override
  public RegisterApplicationMasterResponse registerApplicationMaster(RegisterApplicationMasterRequest request)
      throws IOException {
    return new RegisterApplicationMasterResponsePBImpl(call("registerApplicationMaster",
        ((RegisterApplicationMasterRequestPBImpl) request).getProto(),
        RegisterApplicationMasterResponseProto::parseDelimitedFrom));
  }

  @Override
  public AllocateResponse allocate(AllocateRequest request) throws IOException {
    return new AllocateResponsePBImpl(call("allocate",
        ((AllocateRequestPBImpl) request).getProto(), AllocateResponseProto::parseDelimitedFrom));
  }

  @Override
  public FinishApplicationMasterResponse finishApplicationMaster(FinishApplicationMasterRequest request)
      throws IOException {
    return new FinishApplicationMasterResponsePBImpl(call("finishApplicationMaster",
        ((FinishApplicationMasterRequestPBImpl) request).getProto(),
        FinishApplicationMasterResponseProto::parseDelimitedFrom));
  }

  /** How the answer to a call is read. */
  private interface Parser<T> {
    T parse(InputStream stream) throws IOException;
  }

  /**
   * Makes a call and waits for its answer.
   *
   * @throws IOException with the ResourceManager's own words when it refuses
   */
  private <T> T call(String method, Message request, Parser<T> parser) throws IOException {
    RequestHeaderProto header = RequestHeaderProto.newBuilder()
        .setMethodName(method)
        .setDeclaringClassProtocolName(PROTOCOL)
        .setClientProtocolVersion(RPC.getProtocolVersion(ApplicationMasterProtocolPB.class))
        .build();
    send(call_id++, 0, header, request);
    InputStream answer = read();
    RpcResponseHeaderProto response = RpcResponseHeaderProto.parseDelimitedFrom(answer);
    if (response.getStatus() != RpcStatusProto.SUCCESS) {
      throw new IOException(method + ": " + response.getExceptionClassName() + ": " + response.getErrorMsg());
    }
    return parser.parse(answer);
  }

  private void send(int id, int retry, Message... parts) throws IOException {
    ByteArrayOutputStream body = new ByteArrayOutputStream(256);
    ProtoUtil.makeRpcRequestHeader(RPC.RpcKind.RPC_PROTOCOL_BUFFER, OperationProto.RPC_FINAL_PACKET, id, retry, client_id)
        .writeDelimitedTo(body);
    for (Message part : parts) {
      part.writeDelimitedTo(body);
    }
    DataOutputStream out = streams.out;
    out.writeInt(body.size());
    body.writeTo(out);
    out.flush();
  }

  private InputStream read() throws IOException {
    ByteBuffer answer = streams.readResponse();
    return new ByteArrayInputStream(answer.array(), answer.arrayOffset() + answer.position(), answer.remaining());
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
