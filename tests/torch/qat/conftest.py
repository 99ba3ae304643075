"""Networks here are so small that PyTorch's threads would only wait for one another."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread():
    import torch  # noqa: PLC0415

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
