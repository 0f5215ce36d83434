"""The server against its own OpenAPI: whatever fits, or nearly, gives no error of the server."""

import pytest

from memvec.server import ServerSettings, create_app
from server.conftest import fill, running

EXAMPLES = 25
# No disk, no package, no encoder: the machine's fault, and told as such.
MACHINE = (501, 507)


@pytest.mark.slow
def test_requests_of_its_own_description_give_no_server_error(tmp_path):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings

    fill(tmp_path / "things", 60)
    app = create_app(ServerSettings(tmp_path))
    tried = set()
    with running(None, app) as url:
        schema = schemathesis.openapi.from_dict(app.openapi())
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=EXAMPLES,
                derandomize=True,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case):
                if "name" in case.path_parameters and len(str(case.path_parameters["name"])) % 2:
                    case.path_parameters["name"] = "things"
                answer = case.call(base_url=url)
                assert answer.status_code < 500 or answer.status_code in MACHINE, answer.text
                if answer.status_code >= 400:
                    assert set(answer.json()) == {"error"}

            ask()
            tried.add(operation.label)
    assert len(tried) == sum(len(one) for one in app.openapi()["paths"].values())
