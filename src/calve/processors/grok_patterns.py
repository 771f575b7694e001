r"""The standard patterns of `grok`, written for RE2: without lookaround; `\b` keeps numbers and addresses whole."""

from __future__ import annotations

from collections.abc import Mapping

from calve.processors.grok_log_patterns import LOG_PATTERNS

__all__ = ["PATTERNS"]

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HEX = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        f"(?:{_HEX}:){{7}}{_HEX}",
        f"(?:{_HEX}:){{6}}%{{IPV4}}",
        f"(?:{_HEX}:){{1,6}}:{_HEX}(?::{_HEX}){{0,5}}",
        f"(?:{_HEX}:){{1,5}}:%{{IPV4}}",
        "::(?:[Ff]{4}:)?%{IPV4}",
        f"(?:{_HEX}:){{1,7}}:",
        f"::{_HEX}(?::{_HEX}){{0,6}}",
        "::",
    ]
)

PATTERNS: Mapping[str, str] = {
    **LOG_PATTERNS,
    # names and words
    "USERNAME": "[a-zA-Z0-9._-]+",
    "USER": "%{USERNAME}",
    "EMAILLOCALPART": "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~.-]+",
    "EMAILADDRESS": "%{EMAILLOCALPART}@%{HOSTNAME}",
    "WORD": r"\b\w+\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": ".*?",
    "GREEDYDATA": ".*",
    "QUOTEDSTRING": r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)""",
    "QS": "%{QUOTEDSTRING}",
    "UUID": "[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{12}",
    "URN": "urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:[0-9A-Za-z()+,.:=@;$_!*'/?#%-]+",
    # numbers
    "INT": r"[+-]?\b[0-9]+",
    "BASE10NUM": r"[+-]?(?:\b[0-9]+(?:\.[0-9]+)?|\.[0-9]+)",
    "NUMBER": "%{BASE10NUM}",
    "BASE16NUM": r"[+-]?\b(?:0x)?[0-9A-Fa-f]+\b",
    "BASE16FLOAT": r"[+-]?\b(?:0x)?[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?\b",
    "POSINT": r"\b[1-9][0-9]*\b",
    "NONNEGINT": r"\b[0-9]+\b",
    # networks
    "MAC": "(?:%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC})",
    "CISCOMAC": r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}",
    "WINDOWSMAC": "(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}",
    "COMMONMAC": "(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}",
    "IPV4": rf"\b(?:{_OCTET}\.){{3}}{_OCTET}\b",
    "IPV6": f"(?:{_IPV6})(?:%[0-9A-Za-z]+)?",
    "IP": "(?:%{IPV6}|%{IPV4})",
    "HOSTNAME": r"\b[0-9A-Za-z][0-9A-Za-z_-]{0,62}(?:\.[0-9A-Za-z][0-9A-Za-z_-]{0,62})*\.?",
    "HOST": "%{HOSTNAME}",
    "IPORHOST": "(?:%{IP}|%{HOSTNAME})",
    "HOSTPORT": "%{IPORHOST}:%{POSINT:PORT}",
    # paths and addresses
    "PATH": "(?:%{UNIXPATH}|%{WINPATH})",
    "UNIXPATH": r"(?:/[\w%!$@:.,+~-]*)+",
    "TTY": r"/dev/(?:pts|tty(?:[pq])?)(?:\w+)?/?(?:[0-9]+)?",
    "WINPATH": r"(?:[A-Za-z]:|\\)(?:\\[^\\?*]*)+",
    "URIPROTO": r"[A-Za-z][A-Za-z0-9+.-]*",
    "URIHOST": "%{IPORHOST}(?::%{POSINT:port})?",
    "URIPATH": r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+",
    "URIPARAM": r"\?[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*",
    "URIPATHPARAM": "%{URIPATH}(?:%{URIPARAM})?",
    "URI": "%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?",
    # times
    "MONTH": r"\b(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|[Mm]ay|[Jj]une?|[Jj]uly?|"
    r"[Aa]ug(?:ust)?|[Ss]ep(?:tember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\b",
    "MONTHNUM": "(?:0[1-9]|1[0-2]|[1-9])",
    "MONTHNUM2": "(?:0[1-9]|1[0-2])",
    "MONTHDAY": "(?:0[1-9]|[12][0-9]|3[01]|[1-9])",
    "DAY": "(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)",
    "YEAR": r"\d\d(?:\d\d)?",
    "HOUR": "(?:2[0123]|[01]?[0-9])",
    "MINUTE": "[0-5][0-9]",
    "SECOND": "(?:[0-5]?[0-9]|60)(?:[:.,][0-9]+)?",
    "TIME": r"%{HOUR}:%{MINUTE}(?::%{SECOND})?",
    "DATE_US": "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}",
    "DATE_EU": "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}",
    "ISO8601_TIMEZONE": "(?:Z|[+-]%{HOUR}(?::?%{MINUTE})?)",
    "ISO8601_SECOND": "(?:%{SECOND}|60)",
    "TIMESTAMP_ISO8601": "%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?",
    "DATE": "(?:%{DATE_US}|%{DATE_EU})",
    "DATESTAMP": "%{DATE}[- ]%{TIME}",
    "TZ": "(?:[APMCE][SD]T|UTC|GMT)",
    "DATESTAMP_RFC822": "%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}",
    "DATESTAMP_RFC2822": "%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}",
    "DATESTAMP_OTHER": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}",
    "DATESTAMP_EVENTLOG": "%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}",
    "HTTPDERROR_DATE": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}",
    "HTTPDATE": "%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}",
    # logs
    "LOGLEVEL": "(?i:alert|trace|debug|notice|information|info|warning|warn|error|err|critical|crit|fatal|severe|"
    "emergency|emerg)",
    "SYSLOGTIMESTAMP": "%{MONTH} +%{MONTHDAY} %{TIME}",
    "PROG": r"[!-Z\\^-~]+",
    "SYSLOGPROG": r"%{PROG:program}(?:\[%{POSINT:pid}\])?",
    "SYSLOGHOST": "%{IPORHOST}",
    "SYSLOGFACILITY": r"<%{NONNEGINT:facility}\.%{NONNEGINT:priority}>",
    "SYSLOGBASE": "%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    "COMMONAPACHELOG": r"%{IPORHOST:clientip} %{NOTSPACE:ident} %{NOTSPACE:auth} \[%{HTTPDATE:timestamp}\] "
    r'"(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" '
    r"%{NUMBER:response} (?:%{NUMBER:bytes}|-)",
    "COMBINEDAPACHELOG": "%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}",
    "HTTPD_COMMONLOG": "%{COMMONAPACHELOG}",
    "HTTPD_COMBINEDLOG": "%{COMBINEDAPACHELOG}",
    "JAVACLASS": r"(?:[a-zA-Z$_][a-zA-Z$_0-9]*\.)*[a-zA-Z$_][a-zA-Z$_0-9]*",
    "JAVAFILE": r"[A-Za-z0-9_. -]+",
    "JAVAMETHOD": r"(?:<(?:cl)?init>|[a-zA-Z$_][a-zA-Z$_0-9]*)",
    "JAVASTACKTRACEPART": r"\s*at %{JAVACLASS:class}\.%{JAVAMETHOD:method}\(%{JAVAFILE:file}(?::%{NUMBER:line})?\)",
}
"""The regular expression of each name; it may use other names."""
