#!/bin/sh
# How the files here were made (OpenSSL 3.0; 'x509 -req' makes version 1 unless told otherwise there).
set -e
days=36500
openssl req -x509 -newkey rsa:2048 -nodes -days $days -subj "/O=Synod tests/CN=authority" -keyout authority.key -out authority.pem
openssl req -newkey rsa:2048 -nodes -subj "/O=Synod tests/CN=version 1" -keyout version1.key -out version1.csr
openssl x509 -req -days $days -in version1.csr -CA authority.pem -CAkey authority.key -set_serial 1 -out version1.pem
openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:secret -in version1.key -out version1-encrypted.key
openssl rsa -traditional -aes256 -passout pass:secret -in version1.key -out version1-encrypted-old.key
echo secret > password
rm -f version1.csr authority.key
