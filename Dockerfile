# An image of one layer from nothing: make image, which fills rootfs with certificates, time zones, licences and a home (contrib/rootfs.sh).
FROM scratch
ARG TARGETPLATFORM=linux/amd64
COPY --chown=65532:65532 ${TARGETPLATFORM}/agentx rootfs/ /
ENV HOME=/home/agentx SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt ZONEINFO=/usr/share/zoneinfo.zip
WORKDIR /home/agentx
USER 65532:65532
ENTRYPOINT ["/agentx"]
