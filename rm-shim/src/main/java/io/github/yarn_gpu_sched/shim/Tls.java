package io.github.yarn_gpu_sched.shim;

import io.grpc.*;
import java.io.*;
import java.nio.file.Files;
import java.security.cert.*;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;

/** What the link shows of itself and whom it trusts: files of PEM, read anew for each connection, so that they may be replaced. */
final class Tls {
  static final List<String> KEYS = List.of("ygs.tls.certificate", "ygs.tls.key", "ygs.tls.authority");
  private final List<File> files;

  /** Takes what each of KEYS says. */
  Tls(UnaryOperator<String> path) { files = KEYS.stream().map(path).map(File::new).collect(Collectors.toList()); }

  /** Throws IOException or IllegalArgumentException, whose message does for a log, if the files do not serve. */
  ChannelCredentials credentials() throws IOException {
    check(0);
    check(2);
    if (!Files.readString(files.get(1).toPath()).contains("-----BEGIN PRIVATE KEY-----")) {
      throw new IOException(named(1) + " holds no unencrypted PKCS#8 key in PEM");
    }
    return TlsChannelCredentials.newBuilder().keyManager(files.get(0), files.get(1)).trustManager(files.get(2)).build();
  }

  private String named(int which) { return KEYS.get(which) + ", " + files.get(which) + ","; }

  private void check(int which) throws IOException {
    try (InputStream in = new FileInputStream(files.get(which))) {
      X509Certificate first = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
      if (which == 0) first.checkValidity();  // of authorities there may be an old one beside the new
    } catch (CertificateException unfit) {
      String why = unfit instanceof CertificateExpiredException ? " has expired" : " holds no certificate in PEM that is valid now";
      throw new IOException(named(which) + why, unfit);
    }
  }
}
