#!/usr/bin/env bash
# Stands for an application's master: lends its token to the JVM that speaks for all of them, then waits for its exit
# code. The argument is the folder where both meet.
exchange=$1
mkfifo "${exchange}/${CONTAINER_ID}.fifo"
cp "${HADOOP_TOKEN_FILE_LOCATION}" "${exchange}/${CONTAINER_ID}.part"
mv "${exchange}/${CONTAINER_ID}.part" "${exchange}/${CONTAINER_ID}.token"
read -r -t 600 code <>"${exchange}/${CONTAINER_ID}.fifo"
exit "${code:-1}"
