"""What makes Spark quick enough for tests, whichever way its session is started."""

QUICK = {
    # for seconds of work the best code costs more than it saves
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
}
