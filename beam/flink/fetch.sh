#!/usr/bin/env bash
# fetch.sh FOLDER: the jars of Flink and of Beam's job server for it, from Maven Central, into a folder (160 MB).
set -euo pipefail
[[ $# == 1 ]] || { echo 'usage: fetch.sh FOLDER' >&2; exit 2; }
command -v mvn >/dev/null || { echo 'skipped: Maven (mvn) is not installed'; exit 0; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Some poms name further repositories, which need not answer: everything comes from Central.
cat >"$tmp/settings.xml" <<'EOF'
<settings><mirrors><mirror>
<id>central-only</id><mirrorOf>*</mirrorOf><url>https://repo.maven.apache.org/maven2</url>
</mirror></mirrors></settings>
EOF
# The job server of Beam 2.62 takes the pipelines of the Go SDK 2.77.
cat >"$tmp/pom.xml" <<'EOF'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>flink-jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.beam</groupId><artifactId>beam-runners-flink-1.19</artifactId><version>2.62.0</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
EOF
mvn -B -q -s "$tmp/settings.xml" -f "$tmp/pom.xml" "-Dmaven.repo.local=$tmp/repository" \
	dependency:copy-dependencies "-DoutputDirectory=$folder" -DincludeScope=runtime
printf '%d jars in %s\n' "$(find "$folder" -name '*.jar' | wc -l)" "$folder"
