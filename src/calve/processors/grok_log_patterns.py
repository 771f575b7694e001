r"""Patterns of `grok` for the lines of known programs; they use the names of `grok_patterns`.

The fields of AWS's logs have the names that Data Prepper gives them; those of other programs, the names of Logstash.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LOG_PATTERNS"]


def _dash(pattern: str) -> str:
    """Return a pattern for a value that is `-` when it is missing."""
    return f"(?:-|{pattern})"


def _line(*parts: str) -> str:
    """Return a pattern of values that are separated by one white space each."""
    return r"\s".join(parts)


_ALB_BASE = (
    "%{NOTSPACE:type}",
    "%{TIMESTAMP_ISO8601:time}",
    "%{NOTSPACE:elb}",
    "%{NOTSPACE:client}",
    "%{NOTSPACE:target}",
    "%{BASE10NUM:request_processing_time}",
    "%{NOTSPACE:target_processing_time}",
    "%{BASE10NUM:response_processing_time}",
    "%{BASE10NUM:elb_status_code}",
    "%{NOTSPACE:target_status_code}",
    _dash("%{BASE10NUM:received_bytes:int}"),
    _dash("%{BASE10NUM:sent_bytes:int}"),
)
_ALB_CLIENT = (
    '"%{DATA:user_agent}"',
    "%{NOTSPACE:ssl_cipher}",
    "%{NOTSPACE:ssl_protocol}",
    "%{NOTSPACE:target_group_arn}",
    '"%{DATA:trace_id}"',
)
_ALB_END = (
    f'"{_dash("%{DATA:domain_name}")}"',
    f'"{_dash("%{DATA:chosen_cert_arn}")}"',
    _dash("%{INT:matched_rule_priority:int}"),
    "%{TIMESTAMP_ISO8601:request_creation_time}",
    *(
        f'"{_dash(f"%{{DATA:{name}}}")}"'
        for name in (
            "actions_executed",
            "redirect_url",
            "error_reason",
            "target_list",
            "target_status_code_list",
            "classification",
            "classification_reason",
        )
    ),
)

_AWS: Mapping[str, str] = {
    "ALB_URI": "(?:%{WORD:protocol})?(?:://)?(?:%{IPORHOST:domain})?:?(?:%{INT:http_port})?(?:%{GREEDYDATA:request_uri})?",
    "ALB_HTTP_REQUEST": "(?:%{NOTSPACE:http_method})? (?:%{ALB_URI})? (?:%{NOTSPACE:http_version})?",
    "ALB_HTTP_REQUEST_WITH_GENERAL_URI": "(?:%{NOTSPACE:http_method})? (?:%{NOTSPACE:http_uri})? "
    "(?:%{NOTSPACE:http_version})?",
    "BASE_ALB_ACCESS_LOG": _line(*_ALB_BASE, '"%{ALB_HTTP_REQUEST}"', *_ALB_CLIENT),
    "BASE_ALB_ACCESS_LOG_GENERAL_URI": _line(*_ALB_BASE, '"%{ALB_HTTP_REQUEST_WITH_GENERAL_URI}"', *_ALB_CLIENT),
    "ALB_ACCESS_LOG": _line("%{BASE_ALB_ACCESS_LOG}", *_ALB_END),
    "ALB_ACCESS_LOG_GENERAL_URI": _line("%{BASE_ALB_ACCESS_LOG_GENERAL_URI}", *_ALB_END),
    "ELB_URIPATHPARAM": "%{URIPATH:path}(?:%{URIPARAM:params})?",
    "ELB_URI": "%{URIPROTO:proto}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST:urihost})?(?:%{ELB_URIPATHPARAM})?",
    "ELB_REQUEST_LINE": "(?:%{WORD:verb} %{ELB_URI:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})",
    "ELB_ACCESS_LOG": _line(
        "%{TIMESTAMP_ISO8601:timestamp}",
        "%{NOTSPACE:elb}",
        "%{IP:clientip}:%{INT:clientport:int}",
        _dash("%{IP:backendip}:%{INT:backendport:int}"),
        _dash("%{NUMBER:request_processing_time:float}"),
        _dash("%{NUMBER:backend_processing_time:float}"),
        _dash("%{NUMBER:response_processing_time:float}"),
        _dash("%{INT:response:int}"),
        _dash("%{INT:backend_response:int}"),
        _dash("%{INT:received_bytes:int}"),
        _dash("%{INT:bytes:int}"),
        '"%{ELB_REQUEST_LINE}"',
    ),
    "S3_HTTP_REQUEST": r"(?:%{WORD:verb}\s%{NOTSPACE:request}\sHTTP/%{NUMBER:httpversion}|%{DATA:rawrequest})",
    "S3_ACCESS_LOG": _line(
        "%{WORD:owner}",
        "%{NOTSPACE:bucket}",
        r"\[%{HTTPDATE:timestamp}\]",
        "%{IP:clientip}",
        "%{NOTSPACE:requester}",
        "%{NOTSPACE:request_id}",
        "%{NOTSPACE:operation}",
        "%{NOTSPACE:key}",
        _dash('"%{S3_HTTP_REQUEST}"'),
        _dash("%{INT:response:int}"),
        _dash("%{NOTSPACE:error_code}"),
        _dash("%{INT:bytes_sent:int}"),
        _dash("%{INT:object_size:int}"),
        _dash("%{INT:request_time_ms:int}"),
        _dash("%{INT:turnaround_time_ms:int}"),
        _dash("%{QS:referrer}"),
        _dash("%{QS:agent}"),
        _dash("%{NOTSPACE:version_id}"),
    ),
    "CLOUDFRONT_ACCESS_LOG": _line(
        r"(?<timestamp>%{YEAR}-%{MONTHNUM}-%{MONTHDAY}\s%{TIME})",
        "%{NOTSPACE:x_edge_location}",
        _dash("%{NUMBER:sc_bytes:int}"),
        "%{IPORHOST:clientip}",
        "%{WORD:cs_method}",
        "%{HOSTNAME:cs_host}",
        "%{NOTSPACE:cs_uri_stem}",
        _dash("%{NUMBER:sc_status:int}"),
        "%{NOTSPACE:referrer}",
        "%{NOTSPACE:agent}",
        "%{NOTSPACE:cs_uri_query}",
        "%{NOTSPACE:cookies}",
        "%{WORD:x_edge_result_type}",
        "%{NOTSPACE:x_edge_request_id}",
        "%{HOSTNAME:x_host_header}",
        "%{URIPROTO:cs_protocol}",
        _dash("%{INT:cs_bytes:int}"),
        _dash("%{NUMBER:time_taken:float}"),
        "%{NOTSPACE:x_forwarded_for}",
        "%{NOTSPACE:ssl_protocol}",
        "%{NOTSPACE:ssl_cipher}",
        "%{NOTSPACE:x_edge_response_result_type}",
    ),
    "VPC_FLOW_LOG": _line(
        "%{NUMBER:version}",
        "%{NOTSPACE:account-id}",
        "%{NOTSPACE:interface-id}",
        "%{NOTSPACE:srcaddr}",
        "%{NOTSPACE:dstaddr}",
        *(_dash(f"%{{INT:{name}:int}}") for name in ("srcport", "dstport", "protocol", "packets", "bytes")),
        *(_dash(f"%{{INT:{name}:int}}") for name in ("start", "end")),
        "%{NOTSPACE:action}",
        "%{NOTSPACE:log-status}",
    ),
}
_SYSTEM: Mapping[str, str] = {
    "MESSAGESLOG": "%{SYSLOGBASE} %{DATA}",
    "SYSLOGBASE2": "(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp8601}) (?:%{SYSLOGFACILITY} )?"
    "%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    "SYSLOGLINE": "%{SYSLOGBASE2} %{GREEDYDATA:message}",
    "SYSLOG5424PRINTASCII": "[!-~]+",
    "SYSLOG5424PRI": "<%{NONNEGINT:syslog5424_pri}>",
    "SYSLOG5424SD": r"(?:\[(?:[^\]\\]|\\.)*\])+",
    "SYSLOG5424BASE": "%{SYSLOG5424PRI}%{NONNEGINT:syslog5424_ver} +"
    + " +".join(
        [
            _dash("%{TIMESTAMP_ISO8601:syslog5424_ts}"),
            _dash("%{IPORHOST:syslog5424_host}"),
            _dash("%{SYSLOG5424PRINTASCII:syslog5424_app}"),
            _dash("%{SYSLOG5424PRINTASCII:syslog5424_proc}"),
            _dash("%{SYSLOG5424PRINTASCII:syslog5424_msgid}"),
            _dash("%{SYSLOG5424SD:syslog5424_sd}"),
        ]
    ),
    "SYSLOG5424LINE": "%{SYSLOG5424BASE} *%{GREEDYDATA:syslog5424_msg}",
    "SYSLOGPAMSESSION": r"%{SYSLOGBASE} %{WORD:pam_module}\(%{DATA:pam_caller}\): session %{WORD:pam_session_state} "
    "for user %{USERNAME:username}(?: by %{GREEDYDATA:pam_by})?",
    "CRON_ACTION": "[A-Z ]+",
    "CRONLOG": r"%{SYSLOGBASE} \(%{USER:user}\) %{CRON_ACTION:action} \(%{DATA:message}\)",
}
_SERVERS: Mapping[str, str] = {
    "COMMONAPACHELOG_DATATYPED": r"%{IPORHOST:clientip} %{NOTSPACE:ident} %{NOTSPACE:auth} \[%{HTTPDATE:timestamp}\] "
    r'"(?:%{WORD:verb:string} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion:float})?|%{DATA:rawrequest})" '
    "%{NUMBER:response:int} (?:%{NUMBER:bytes:long}|-)",
    "HTTPD24_ERRORLOG": r"\[%{HTTPDERROR_DATE:timestamp}\] \[(?:%{WORD:module})?:%{LOGLEVEL:loglevel}\] "
    r"\[pid %{POSINT:pid}(?::tid %{NUMBER:tid})?\](?: \(%{POSINT:proxy_errorcode}\)%{DATA:proxy_message}:)?"
    r"(?: \[client %{IPORHOST:clientip}:%{POSINT:clientport}\])?(?: %{WORD:errorcode}:)? %{GREEDYDATA:message}",
    "HTTPD20_ERRORLOG": r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] "
    r"(?:\[client %{IPORHOST:clientip}\] )?%{GREEDYDATA:message}",
    "HTTPD_ERRORLOG": "(?:%{HTTPD24_ERRORLOG}|%{HTTPD20_ERRORLOG})",
    "HAPROXYTIME": "%{HOUR:haproxy_hour}:%{MINUTE:haproxy_minute}:%{SECOND:haproxy_second}",
    "HAPROXYDATE": "%{MONTHDAY:haproxy_monthday}/%{MONTH:haproxy_month}/%{YEAR:haproxy_year}:"
    r"(?<haproxy_time>%{HOUR}:%{MINUTE}:[0-5][0-9])\.%{INT:haproxy_milliseconds}",
    "HAPROXYHTTP": r"%{SYSLOGTIMESTAMP:syslog_timestamp} %{IPORHOST:syslog_server} %{SYSLOGPROG}: "
    r"%{IP:client_ip}:%{INT:client_port} \[%{HAPROXYDATE:accept_date}\] %{NOTSPACE:frontend_name} "
    "%{DATA:backend_name}/%{NOTSPACE:server_name} "
    "%{INT:time_request}/%{INT:time_queue}/%{INT:time_backend_connect}/%{INT:time_backend_response}/"
    "%{NOTSPACE:time_duration} %{INT:http_status_code} %{NOTSPACE:bytes_read} %{DATA:captured_request_cookie} "
    "%{DATA:captured_response_cookie} %{NOTSPACE:termination_state} "
    "%{INT:actconn}/%{INT:feconn}/%{INT:beconn}/%{INT:srvconn}/%{NOTSPACE:retries} "
    r"%{INT:srv_queue}/%{INT:backend_queue} (?:\{%{DATA:captured_request_headers}\} )?"
    r"(?:\{%{DATA:captured_response_headers}\} )?"
    '"(?:<BADREQ>|%{WORD:http_verb} (?:%{URIPROTO:http_proto}://)?(?:%{URIHOST:http_host})?'
    '(?:%{URIPATHPARAM:http_request})?(?: HTTP/%{NUMBER:http_version})?)"?',
    "HAPROXYTCP": r"%{SYSLOGTIMESTAMP:syslog_timestamp} %{IPORHOST:syslog_server} %{SYSLOGPROG}: "
    r"%{IP:client_ip}:%{INT:client_port} \[%{HAPROXYDATE:accept_date}\] %{NOTSPACE:frontend_name} "
    "%{DATA:backend_name}/%{NOTSPACE:server_name} %{INT:time_queue}/%{INT:time_backend_connect}/"
    "%{NOTSPACE:time_duration} %{NOTSPACE:bytes_read} %{NOTSPACE:termination_state} "
    "%{INT:actconn}/%{INT:feconn}/%{INT:beconn}/%{INT:srvconn}/%{NOTSPACE:retries} "
    "%{INT:srv_queue}/%{INT:backend_queue}",
    "RUBY_LOGLEVEL": "(?:DEBUG|FATAL|ERROR|WARN|INFO)",
    "RUBY_LOGGER": r"[DFEWI], \[%{TIMESTAMP_ISO8601:timestamp} #%{POSINT:pid}\] *%{RUBY_LOGLEVEL:loglevel} -- +"
    "%{DATA:progname}: %{GREEDYDATA:message}",
    "REDISTIMESTAMP": "%{MONTHDAY} %{MONTH} %{TIME}",
    "REDISLOG": r"\[%{POSINT:pid}\] %{REDISTIMESTAMP:timestamp} \* ?%{GREEDYDATA:message}",
}

LOG_PATTERNS: Mapping[str, str] = {**_AWS, **_SYSTEM, **_SERVERS}
"""The regular expression of each name; it may use other names."""
