# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
# Packages of other suites than this machine's own, from its own Debian mirror, without installing anything.
# Sourced, never run; after lib.sh.

# Address of the Debian archive that this machine uses.
mirror_uri() {
    local format="\$(REPO_URI) \$(LABEL) \$(COMPONENT)" line
    line=$(apt-get indextargets --format "$format" 'Identifier: Packages' 2>/dev/null |
        awk '$NF == "main" && $1 !~ /security/ && $2 !~ /^(Debian-Security|Debian-Backports)$/' |
        # Third-party archives are told apart by their label, known once apt has updated.
        awk '$2 == "Debian" { print $1; found = 1; exit } { last = $1 } END { if (!found) print last }')
    [[ -n $line ]] || die 1 "apt's configuration names no Debian archive with the component 'main'; \
add one under /etc/apt/sources.list.d, run 'apt-get update', and try again"
    printf '%s\n' "$line"
}

# Key files for Signed-By, comma separated: those that the machine's sources name
# (a private mirror may sign with its own key), and Debian's keys of all releases.
signing_keys() {
    local keys=() key
    while read -r key; do
        [[ -r $key ]] && keys+=("$key")
    done < <(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
        grep -v '^[[:space:]]*#' |
        grep -ioE 'signed-by[:=][[:space:]]*[^] ]+' | sed -E 's/^[^:=]*[:=][[:space:]]*//' |
        tr ',' '\n' | grep -E '^/.*debian.*' | sort -u)
    for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        if [[ -r $key ]]; then
            keys+=("$key")
            break
        fi
    done
    ((${#keys[@]})) || die 1 "no Debian signing keys; install the package debian-archive-keyring"
    (
        IFS=,
        printf '%s\n' "${keys[*]}"
    )
}

# private_apt DIR SUITE...: points apt at a sources list, package lists and a cache of our own in DIR. Nothing counts
# as installed there.
private_apt() {
    local dir=$1 uri keys suite
    shift
    uri=$(mirror_uri)
    keys=$(signing_keys)
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    : >"$dir/status"
    for suite in "$@"; do
        printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' "$keys" "$uri" "$suite"
    done >"$dir/sources.list"
    cat >"$dir/apt.conf" <<EOF
Dir::Etc::SourceList "$dir/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$dir/lists";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
EOF
    export APT_CONFIG=$dir/apt.conf
    say "reading package lists of $* ..."
    apt-get update -qq -o Acquire::Retries=3 >&2 ||
        die 1 "apt could not read the package lists of $*; is the network up, and \
is the package debian-archive-keyring current?"
}
