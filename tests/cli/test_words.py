"""Decisions and outcomes in different words, as a bank's file has them."""

import csv
import http.server
import json
import threading

import numpy as np
import pytest

NAMED = ("--label", "repaid", "--positive", "yes", "--group", "sex", "--id", "no",
         "--predictions", "said")  # fmt: skip


def applicants(path, n, seed, *, outcome=True, first=0):
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["no", "income", "debt", "sex", "said", *(["repaid"] if outcome else [])])
        for i in range(n):
            sex = rng.choice(["f", "m"])
            income, debt = int(rng.integers(1, 6)), int(rng.integers(0, 4))
            good = income - debt > (2 if sex == "f" else 1)
            repaid = rng.random() < 0.3 + 0.1 * income
            row = [first + i, income, debt, sex, "approve" if good else "decline"]
            writer.writerow([*row, *(["yes" if repaid else "no"] if outcome else [])])
    return path


@pytest.fixture
def bank(tmp_path):
    applicants(tmp_path / "loans.csv", 2_000, 0)
    applicants(tmp_path / "new.csv", 500, 1, outcome=False)
    return tmp_path


@pytest.mark.parametrize(("column", "flag"), [(5, "--label"), (4, "--predictions")])
def test_a_third_word_that_usually_means_missing_is_an_error_that_says_so(bank, call, column, flag):
    lines = [line.split(",") for line in (bank / "loans.csv").read_text().splitlines()]
    lines[7][column] = "n/a"
    (bank / "loans.csv").write_text("\n".join(map(",".join, lines)))
    done = call("audit", "loans.csv", *NAMED, "--positive-decision", "approve", cwd=bank)
    assert done.code == 3
    assert f"{flag}: must have two values; got 3: " in done.err
    assert "If 'n/a' stands for a missing value, say --missing n/a." in done.err


def test_foreign_words_are_an_error_that_says_what_to_type(bank, call):
    done = call("audit", "loans.csv", *NAMED, cwd=bank)
    assert done.code == 3
    assert "got 'approve', 'decline'. If these are its words, say --positive-decision" in done.err


def test_the_audit_counts_approvals(bank, call):
    done = call("audit", "loans.csv", *NAMED, "--positive-decision", "approve", "--json", cwd=bank)
    assert done.code == 0, done.err
    with (bank / "loans.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    women = [row["said"] == "approve" for row in rows if row["sex"] == "f"]
    groups = {one["group"]: one for one in json.loads(done.out)["groups"]}
    assert groups["f"]["selection_rate"] == pytest.approx(np.mean(women))


def test_a_repair_decides_about_newcomers_in_the_vendors_words(bank, call):
    assert call("key", "secret.key", cwd=bank).code == 0
    done = call("repair", "loans.csv", *NAMED, "--positive-decision", "approve",
                "--key-file", "secret.key", "-o", "r.fairmend", cwd=bank)  # fmt: skip
    assert done.code == 0, done.err
    done = call("apply", "r.fairmend", "new.csv", "--id", "no", "--key-file", "secret.key",
                "--emit", "both", "-o", "out.csv", cwd=bank)  # fmt: skip
    assert done.code == 0, done.err
    with (bank / "out.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["decision"] for row in rows} == {"approve", "decline"}
    men = [row for row in rows if row["sex"] == "m"]
    assert all(row["decision"] == row["said"] for row in men)
    assert any(row["decision"] != row["said"] for row in rows)


def test_many_files_take_words_too(bank, call):
    (bank / "many").mkdir()
    applicants(bank / "many" / "a.csv", 700, 2)
    applicants(bank / "many" / "b.csv", 700, 3, first=700)
    done = call("audit", "many", *NAMED, "--positive-decision", "approve", cwd=bank)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--positive-decision", "aprove"), "got 'aprove'. Did you mean 'approve'?"),
        (("--predictions", "income", "--positive-decision", "3"), "needs --predictions that are"),
    ],
)
def test_mistakes(bank, call, more, message):
    done = call("audit", "loans.csv", *NAMED, *more, cwd=bank)
    assert done.code in (2, 3)
    assert message in " ".join(done.err.replace("│", " ").split())


@pytest.fixture
def vendor():
    """A vendor's server, and the columns it was sent."""
    seen = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
            seen.update(*rows)
            body = json.dumps({"predictions": [0.2 * row["income"] - 0.1 for row in rows]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/predict", seen
    server.shutdown()
    server.server_close()


def test_nobodys_group_is_sent_to_a_stranger_unless_asked_for(bank, call, vendor):
    address, seen = vendor
    named = (*NAMED[:-2], "--ignore", "said", "--model", address)
    done = call("audit", "loans.csv", *named, cwd=bank)
    assert done.code == 0, done.err
    assert "note: the model is sent 'income', 'debt'" in done.err
    assert seen == {"income", "debt"}
    told = (*named, "--input", "income", "--input", "sex")
    assert call("audit", "loans.csv", *told, cwd=bank).code == 0
    assert "sex" in seen
