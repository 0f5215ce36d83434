"""`import memvec` stays light: what only some users need is imported when they need it."""

import subprocess
import sys

HEAVY = ["matplotlib", "cv2", "pyarrow", "h5py", "sklearn", "faiss", "pandas", "rich"]


def test_import_loads_nothing_heavy():
    code = f"import sys, memvec; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
