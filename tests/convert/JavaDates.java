import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.text.ParsePosition;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.TemporalAccessor;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Reads times by Java's own DateTimeFormatter, built as Data Prepper's `date` builds it. Each line of the input is a zone,
 * a date that fills in what the pattern lacks (or nothing), a pattern and a text, with tabs between them. The answer is
 * the nanoseconds since 1970, `-` if the text does not match, or `!` if the pattern is none.
 */
public class JavaDates {
    private static final Instant FIRST = Instant.parse("0001-01-01T00:00:00Z");
    private static final Instant END = Instant.parse("+10000-01-01T00:00:00Z");

    public static void main(String[] arguments) throws Exception {
        Map<String, DateTimeFormatter> formatters = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            answers.append(answer(formatters, parts[0], parts[1], parts[2], parts[3])).append('\n');
        }
        System.out.print(answers);
    }

    private static String answer(Map<String, DateTimeFormatter> known, String zone, String today, String pattern, String text) {
        DateTimeFormatter formatter;
        try {
            formatter = known.computeIfAbsent(zone + "\t" + today + "\t" + pattern, key -> formatter(zone, today, pattern));
        } catch (IllegalArgumentException error) {
            return "!";
        }
        try {
            TemporalAccessor parsed = formatter.parse(text);
            Instant time = ZonedDateTime.from(parsed).toInstant();
            if (time.isBefore(FIRST) || !time.isBefore(END) || isAnotherDay(formatter, text, LocalDate.from(parsed))) {
                return "-";
            }
            return nanoseconds(time);
        } catch (Exception error) {
            return "-";
        }
    }

    private static String nanoseconds(Instant time) {
        return BigInteger.valueOf(time.getEpochSecond())
            .multiply(BigInteger.valueOf(1_000_000_000))
            .add(BigInteger.valueOf(time.getNano()))
            .toString();
    }

    /** Whether the text has a day that its month lacks: Java takes the last day of the month. */
    private static boolean isAnotherDay(DateTimeFormatter formatter, String text, LocalDate date) {
        TemporalAccessor fields = formatter.parseUnresolved(text, new ParsePosition(0));
        if (!fields.isSupported(ChronoField.DAY_OF_MONTH)) {
            return false;
        }
        long day = fields.getLong(ChronoField.DAY_OF_MONTH);
        return day != date.getDayOfMonth() && day != date.minusDays(1).getDayOfMonth(); // 24:00 is the next day
    }

    private static DateTimeFormatter formatter(String zone, String today, String pattern) {
        DateTimeFormatterBuilder builder = new DateTimeFormatterBuilder().parseCaseInsensitive().appendPattern(pattern);
        String letters = pattern.replaceAll("'[^']*'", "");
        if (!today.isEmpty()) {
            LocalDate date = LocalDate.parse(today);
            if (!letters.contains("D")) {
                builder.parseDefaulting(ChronoField.MONTH_OF_YEAR, date.getMonthValue());
                builder.parseDefaulting(ChronoField.DAY_OF_MONTH, date.getDayOfMonth());
            }
            if (!letters.contains("y") && !letters.contains("u")) {
                builder.parseDefaulting(ChronoField.YEAR_OF_ERA, date.getYear());
            }
        }
        if (!letters.contains("h") && !letters.contains("K") && !letters.contains("k")) {
            builder.parseDefaulting(ChronoField.HOUR_OF_DAY, 0); // with hours of half a day, no text would match
        }
        builder.parseDefaulting(ChronoField.MINUTE_OF_HOUR, 0).parseDefaulting(ChronoField.SECOND_OF_MINUTE, 0);
        return builder.toFormatter(Locale.ENGLISH).withZone(ZoneId.of(zone));
    }
}
