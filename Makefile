# `make reflex` raises the first stage, `make test` checks everything, `make check` is for before each commit.
# Stamp files in .venv remember what is installed: a second call installs nothing.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
SYSTEM := $(if $(filter true,$(CI)),test-system)
SYSTEM_PACKAGES := portaudio19-dev pulseaudio pulseaudio-utils libasound2-plugins chromium openssl iproute2 postgresql gcc libc6-dev e2fsprogs xfsprogs btrfs-progs
# Debian's postgresql makes a cluster and starts it, unless it is told not to; the tests start servers of their own.
CLUSTERS := /etc/postgresql-common/createcluster.d
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Processes of one thread each, two unless told: threads of torch would only get into each other's way in small tests.
# Bytecode is kept, also where the environment says not to (images of containers do): tests begin a hundred processes.
PROCESSES ?= 2
TESTS := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

# Types are checked beside the tests, as what one core does not need of its time: alone they keep one of two waiting.
define tested
nice $(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; $(TESTS) $(1); tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; test $$tests = 0 -a $$types = 0
endef

.PHONY: help reflex childhood docs attack elsewhere mutants test check lint format test-system clean
.NOTPARALLEL:

help:
	@echo "make reflex       install, then raise the reflex stage (ARGS='--minutes 5' passes options on)"
	@echo "make childhood    install, then raise an agent through all stages, to one report"
	@echo "make docs         build the documents as a site, site/index.html, without the network; a broken link fails"
	@echo "make attack       faults at every write, dying processes (SECONDS=300), forgetting (LIVES=200), damaged input (CASES=5000), a childhood killed (KILLS=50), then make elsewhere"
	@echo "make elsewhere    the tests of models and stages as on other machines: other kernels, other seeds of the tests' own data"
	@echo "make check        format, lint, types, default tests: some 25 minutes on two cores, before each commit"
	@echo "make test         the same with the slow tests and the README's commands, in one go: under an hour on two cores,"
	@echo "                  fewer with more of them (make test PROCESSES=4)"
	@echo "make format       let ruff rewrite the code"
	@echo "make mutants      faults put into exams and gates, each of which a test must notice: some ten minutes"
	@echo "make test-system  apt packages, PyAudio and Rerun, for the tests that skip without"

reflex: $(BASE)
	$(BIN)/devmind stage run reflex $(ARGS)

childhood: $(BASE)
	$(BIN)/devmind stage run all $(ARGS)

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

KILLS ?= 50
CASES ?= 5000
SECONDS ?= 300
LIVES ?= 200
attack: $(DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.histories --seconds $(SECONDS)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.memory.deletions --lives $(LIVES)
	$(BIN)/python -m tests.sessions.hostile --cases $(CASES)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.feed.kills
	$(BIN)/python -m tests.curriculum.attack --kills $(KILLS) $(ARGS)
	$(MAKE) elsewhere

# What the libraries are told to leave out they leave out on any processor; what it lacks they cannot add.
NUMERICAL ?= tests/agent tests/acting tests/algorithms tests/learners tests/memory tests/curriculum tests/stages
elsewhere: $(DEV)
	DEVMIND_TEST_KERNELS=shapes $(TESTS) $(NUMERICAL)
	DEVMIND_TEST_SEEDS=1000 ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 $(TESTS) $(NUMERICAL)
	DEVMIND_TEST_SEEDS=2000 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 $(TESTS) $(NUMERICAL)

# All tests in one go: each process reads all test files and imports what they need once, and waits for none in between.
test: $(SYSTEM) lint
	$(call tested,-m '')

check: lint
	$(call tested)

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

mutants: $(DEV)
	$(BIN)/python -m tests.mutants $(ARGS)

test-system: $(BASE)
	$(SUDO) apt-get update -q
	$(SUDO) mkdir -p $(CLUSTERS)
	echo "create_main_cluster = off" | $(SUDO) tee $(CLUSTERS)/devmind-tests.conf >/dev/null
	$(SUDO) apt-get install -q -y --no-install-recommends $(SYSTEM_PACKAGES); \
		failed=$$?; $(SUDO) rm -f $(CLUSTERS)/devmind-tests.conf; exit $$failed
	$(PIP) -e '.[live,viewer]'

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "devmind needs Python 3.11 or newer; install it, or say where: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "devmind needs Python 3.11 or newer; '$(PYTHON)' is older: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv is missing: on Debian or Ubuntu, apt install python3-venv"; exit 1; }

$(BASE): constraints.txt pyproject.toml | $(BIN)/python
	@echo "Installing devmind into $(VENV) (some minutes, once)"
	$(PIP) torch==2.13.0
	$(PIP) -e .
	@touch $@

$(DEV): $(BASE)
	$(PIP) -e '.[dev]'
	@touch $@
