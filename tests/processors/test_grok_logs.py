"""Patterns of `grok` for the lines of known programs, each with a line as its maker documents it."""

from __future__ import annotations

from typing import Any

import pytest

from calve.processors.grok import compile_grok
from calve.processors.grok_patterns import PATTERNS
from processors.chains import ran

ELB = (
    "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "
    '"GET http://www.example.com:80/a?b=1 HTTP/1.1"'
)
ALB = (
    "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 "
    '0.037 200 200 0 57 "GET https://www.example.com:443/a HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
    'arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2 "Root=1-58337281-1d84f3d73c47ec4e58577259" '
    '"www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678" 1 2018-07-02T22:22:48.364000Z '
    '"authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"'
)
S3 = (
    "79a59df900b949e5 amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a59df900b949e5 3E57427F3EXAMPLE "
    'REST.GET.VERSIONING - "GET /amzn-s3-demo-bucket1?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" -'
)
CLOUDFRONT = (
    "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0\t-\t-"
    "\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.cloudfront.net\thttps\t23\t0.001\t-"
    "\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit"
)
VPC = (
    "2 123456789010 eni-1235b8ca123456789 172.31.16.139 172.31.16.21 20641 22 6 20 4249 1418530010 1418530070 ACCEPT OK"
)
NO_DATA = "2 123456789010 eni-1235b8ca123456789 - - - - - - - 1431280876 1431280934 - NODATA"
SYSLOG = "<34>1 2003-10-11T22:14:15.003Z host.example.com su - ID47 [a@1 b=\"c\"] 'su root' failed"
HAPROXY = (
    "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 "
    '10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"'
)


@pytest.mark.parametrize(
    ("name", "line", "some"),
    [
        (
            "ELB_ACCESS_LOG",
            ELB,
            {"elb": "my-loadbalancer", "clientport": 2817, "backendip": "10.0.0.1", "request_processing_time": 0.000073}
            | {
                "response": 200,
                "bytes": 29,
                "verb": "GET",
                "urihost": "www.example.com:80",
                "path": "/a",
                "params": "?b=1",
            },
        ),
        ("ELB_ACCESS_LOG", ELB.replace("10.0.0.1:80", "-").replace(" 29 ", " - "), {"backend_response": 200}),
        (
            "ALB_ACCESS_LOG",
            ALB,
            {"type": "https", "client": "192.168.131.39:2817", "target": "10.0.0.1:80", "elb_status_code": "200"}
            | {"received_bytes": 0, "sent_bytes": 57, "http_method": "GET", "protocol": "https", "request_uri": "/a"}
            | {"domain": "www.example.com", "http_port": "443", "http_version": "HTTP/1.1", "user_agent": "curl/7.46.0"}
            | {"trace_id": "Root=1-58337281-1d84f3d73c47ec4e58577259", "matched_rule_priority": 1}
            | {
                "actions_executed": "authenticate,forward",
                "target_list": "10.0.0.1:80",
                "target_status_code_list": "200",
            },
        ),
        ("ALB_ACCESS_LOG_GENERAL_URI", ALB, {"http_uri": "https://www.example.com:443/a", "http_version": "HTTP/1.1"}),
        (
            "S3_ACCESS_LOG",
            S3,
            {
                "bucket": "amzn-s3-demo-bucket1",
                "timestamp": "06/Feb/2019:00:00:38 +0000",
                "operation": "REST.GET.VERSIONING",
            }
            | {"request": "/amzn-s3-demo-bucket1?versioning", "response": 200, "bytes_sent": 113, "request_time_ms": 7}
            | {"agent": "S3Console/0.4"},
        ),
        (
            "CLOUDFRONT_ACCESS_LOG",
            CLOUDFRONT,
            {"timestamp": "2019-12-04\t21:02:31", "sc_bytes": 392, "cs_uri_stem": "/index.html", "sc_status": 200}
            | {
                "time_taken": 0.001,
                "x_edge_result_type": "Hit",
                "agent": "Mozilla/5.0",
                "x_edge_response_result_type": "Hit",
            },
        ),
        (
            "VPC_FLOW_LOG",
            VPC,
            {"version": "2", "account-id": "123456789010", "srcaddr": "172.31.16.139", "srcport": 20641, "protocol": 6}
            | {"bytes": 4249, "start": 1418530010, "action": "ACCEPT", "log-status": "OK"},
        ),
        ("VPC_FLOW_LOG", NO_DATA, {"start": 1431280876, "action": "-", "log-status": "NODATA"}),
        (
            "SYSLOG5424LINE",
            SYSLOG,
            {"syslog5424_pri": "34", "syslog5424_ver": "1", "syslog5424_app": "su", "syslog5424_msgid": "ID47"}
            | {"syslog5424_sd": '[a@1 b="c"]', "syslog5424_msg": "'su root' failed"},
        ),
        (
            "SYSLOGLINE",
            "2024-01-31T12:34:56Z host app[7]: text",
            {
                "timestamp8601": "2024-01-31T12:34:56Z",
                "logsource": "host",
                "program": "app",
                "pid": "7",
                "message": "text",
            },
        ),
        (
            "CRONLOG",
            "Jan  5 12:00:01 host CRON[12]: (root) CMD (run-parts /etc)",
            {"user": "root", "action": "CMD", "message": "run-parts /etc"},
        ),
        (
            "HAPROXYHTTP",
            HAPROXY,
            {"client_ip": "10.0.1.2", "frontend_name": "http-in", "backend_name": "static", "server_name": "srv1"}
            | {
                "time_duration": "109",
                "http_status_code": "200",
                "captured_request_headers": "1wt.eu",
                "http_verb": "GET",
            }
            | {"http_request": "/index.html", "http_version": "1.1", "haproxy_milliseconds": "655"},
        ),
        (
            "HTTPD_ERRORLOG",
            "[Thu Apr 25 10:33:57 2024] [error] [client 10.0.0.1] File does not exist: /x",
            {"loglevel": "error", "clientip": "10.0.0.1", "message": "File does not exist: /x"},
        ),
        (
            "HTTPD_ERRORLOG",
            "[Thu Apr 25 10:33:57.123 2024] [core:error] [pid 12:tid 34] [client 10.0.0.1:80] AH00128: gone",
            {"module": "core", "pid": "12", "tid": "34", "clientport": "80", "errorcode": "AH00128", "message": "gone"},
        ),
        (
            "RUBY_LOGGER",
            "E, [2024-01-31T12:34:56.789 #12] ERROR -- web: failed",
            {"pid": "12", "loglevel": "ERROR", "progname": "web", "message": "failed"},
        ),
        ("REDISLOG", "[4018] 14 Nov 07:01:22 * Saving...", {"pid": "4018", "message": "Saving..."}),
        (
            "COMMONAPACHELOG_DATATYPED",
            'a.de - - [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326',
            {"httpversion": 1.0, "response": 200, "bytes": 2326},
        ),
    ],
)
def test_a_line_of_a_program(name: str, line: str, some: dict[str, Any]) -> None:
    [event] = ran({"grok": {"match": {"line": [f"^%{{{name}}}$"]}}}, {"line": line})
    assert {key: event.get(key) for key in some} == some


def test_every_name_is_a_pattern() -> None:
    for name in PATTERNS:
        compile_grok(f"%{{{name}:it}}", PATTERNS)


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [
        ("took %{NUMBER:ms:float}ms", "took 12.5ms", {"ms": 12.5}),
        ("v%{INT:n;int}", "v12", {"n": 12}),
        ("%{GREEDYDATA:a}%{NUMBER:b}", "abc 123", {"a": "abc ", "b": "123"}),
        ("%{TIME:t}", "2024-01-31T12:34:56Z", {"t": "12:34:56"}),
    ],
)
def test_numbers_beside_letters(pattern: str, text: str, parts: dict[str, Any]) -> None:
    assert ran({"grok": {"match": {"line": [pattern]}}}, {"line": text}) == [{"line": text} | parts]
